// Fails one call of the C library in the tool: the FAULT_NTH-th call of FAULT_CALL, with FAULT_ERRNO (0: a short write). Calls are
// counted across the tool's own processes, in the file FAULT_COUNTER.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic long *calls;
static const char *wanted;
static long nth;
static int error;

__attribute__((constructor)) static void start(void) {
  const char *counter = getenv("FAULT_COUNTER");
  wanted = getenv("FAULT_CALL");
  // Only the tool itself: what the program under test does is not what is tested here.
  if (!counter || !wanted || strcmp(program_invocation_short_name, "crashproof") != 0) return;
  nth = atol(getenv("FAULT_NTH"));
  error = atoi(getenv("FAULT_ERRNO"));
  int file = syscall(SYS_openat, AT_FDCWD, counter, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  syscall(SYS_ftruncate, file, 4096L);
  void *at = (void *)syscall(SYS_mmap, 0, 4096L, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
  if (at != MAP_FAILED) calls = at;
  syscall(SYS_close, file);
}

static int fails(const char *name) {
  if (!calls || strcmp(name, wanted) != 0) return 0;
  if (atomic_fetch_add(calls, 1) + 1 != nth) return 0;
  errno = error;
  return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  if (fails("open")) return -1;
  return NEXT(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  if (fails("open64")) return -1;
  return NEXT(open64)(path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  if (fails("openat64")) return -1;
  return NEXT(openat64)(at, path, flags, mode);
}

void * mmap64(void *at, size_t size, int rights, int flags, int file, off64_t offset) {
  if (fails("mmap64")) return MAP_FAILED;
  return NEXT(mmap64)(at, size, rights, flags, file, offset);
}

pid_t fork(void) {
  if (fails("fork")) return -1;
  return NEXT(fork)();
}

ssize_t read(int file, void *to, size_t size) {
  if (fails("read")) return -1;
  return NEXT(read)(file, to, size);
}

int pipe2(int files[2], int flags) {
  if (fails("pipe2")) return -1;
  return NEXT(pipe2)(files, flags);
}

int memfd_create(const char *name, unsigned flags) {
  if (fails("memfd_create")) return -1;
  return NEXT(memfd_create)(name, flags);
}

int ftruncate64(int file, off64_t size) {
  if (fails("ftruncate64")) return -1;
  return NEXT(ftruncate64)(file, size);
}

int mkdir(const char *path, mode_t mode) {
  if (fails("mkdir")) return -1;
  return NEXT(mkdir)(path, mode);
}

int dup2(int from, int to) {
  if (fails("dup2")) return -1;
  return NEXT(dup2)(from, to);
}

int socketpair(int domain, int type, int protocol, int files[2]) {
  if (fails("socketpair")) return -1;
  return NEXT(socketpair)(domain, type, protocol, files);
}

int poll(struct pollfd *files, nfds_t count, int timeout) {
  if (fails("poll")) return -1;
  return NEXT(poll)(files, count, timeout);
}

pid_t waitpid(pid_t child, int *status, int options) {
  if (fails("waitpid")) return -1;
  return NEXT(waitpid)(child, status, options);
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options) {
  if (fails("waitid")) return -1;
  return NEXT(waitid)(type, id, info, options);
}

int fstat64(int file, struct stat64 *about) {
  if (fails("fstat64")) return -1;
  return NEXT(fstat64)(file, about);
}

int stat64(const char *path, struct stat64 *about) {
  if (fails("stat64")) return -1;
  return NEXT(stat64)(path, about);
}

// Disks fill up in the middle: half is written, the rest is the caller's to write again.
ssize_t write(int file, const void *from, size_t size) {
  if (fails("write")) {
    if (error) return -1;
    size = (size + 1) / 2;
  }
  return NEXT(write)(file, from, size);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  if (fails("writev")) return -1;
  return NEXT(writev)(file, parts, count);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  if (fails("pthread_create")) return error;
  return NEXT(pthread_create)(thread, attributes, run, argument);
}

int posix_spawnp(pid_t *child, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
  if (fails("posix_spawnp")) return error;
  return NEXT(posix_spawnp)(child, file, actions, attributes, arguments, environment);
}
