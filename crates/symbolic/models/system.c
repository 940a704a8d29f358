/*
 * What programs ask of the system, as the prover executes it: files that are mapped, clocks, errors by name. A mapped file
 * is persistent memory, zero at first, as for libpmem. That a file exists, and how long it is, is durable as soon as it has been
 * given a length: a crash before that finds it as it was. That it could be found empty is left out, as `crashproof check` does,
 * which crashes programs where they change persistent memory.
 */
#define MODEL __attribute__((weak))
typedef unsigned long size_t;

void __crashproof_not_modeled(const char *what);
void *__crashproof_file(const char *path, size_t bytes);
void *__crashproof_about(const char *path);
long crashproof_nondet_long(void);
void crashproof_flush(const void *start, size_t bytes);
void __crashproof_assume(int condition);
void *calloc(size_t count, size_t bytes);
void *malloc(size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
int *__errno_location(void);

/* What is known of a file besides its content. */
struct about {
  unsigned long exists, bytes;
};
enum { NO_ENTRY = 2, BAD_FILE = 9, EXISTS = 17, INVALID = 22 };
static int fails(int error) {
  *__errno_location() = error;
  return -1;
}

enum { FIRST_FILE = 3, MOST_FILES = 16 };
static const char *paths[MOST_FILES];
static struct about *abouts[MOST_FILES];
static int files;
static struct about *file_of(int file) {
  return file < FIRST_FILE || file >= FIRST_FILE + files ? 0 : abouts[file - FIRST_FILE];
}

/* Files that were created and have no length yet. */
static char created[MOST_FILES];
static int exists(const struct about *about) {
  for (int file = 0; file < files; file++)
    if (created[file] && abouts[file] == about)
      return 1;
  return about->exists != 0;
}
static void set_length(struct about *about, unsigned long bytes) {
  if (about->exists && about->bytes == bytes)
    return;
  about->bytes = bytes;
  about->exists = 1;
  crashproof_flush(about, sizeof *about);
  __asm__ volatile("sfence" ::: "memory");
}

enum { CREATE = 0100, EXCLUSIVE = 0200, TRUNCATE = 01000 };
static int opened(const char *path, int flags) {
  struct about *about = __crashproof_about(path);
  int there = exists(about);
  if (!(flags & CREATE) && !there)
    return fails(NO_ENTRY);
  if ((flags & CREATE) && (flags & EXCLUSIVE) && there)
    return fails(EXISTS);
  if ((flags & TRUNCATE) && about->bytes)
    __crashproof_not_modeled("to cut off a file that has content");
  if (files == MOST_FILES)
    __crashproof_not_modeled("a program with so many files");
  paths[files] = path;
  abouts[files] = about;
  created[files] = 1;
  return FIRST_FILE + files++;
}
MODEL int open(const char *path, int flags, ...) { return opened(path, flags); }
MODEL int open64(const char *path, int flags, ...) { return opened(path, flags); }
MODEL int creat(const char *path, unsigned mode) { return (void)mode, opened(path, CREATE | TRUNCATE); }
MODEL int unlink(const char *path) {
  if (exists(__crashproof_about(path)))
    __crashproof_not_modeled("to remove a file");
  return fails(NO_ENTRY);
}
MODEL int remove(const char *path) { return unlink(path); }
MODEL int access(const char *path, int mode) {
  (void)mode;
  return exists(__crashproof_about(path)) ? 0 : fails(NO_ENTRY);
}
MODEL int ftruncate(int file, long bytes) {
  struct about *about = file_of(file);
  if (!about)
    return fails(BAD_FILE);
  if (bytes < 0)
    return fails(INVALID);
  if ((unsigned long)bytes < about->bytes)
    __crashproof_not_modeled("to make a file shorter");
  set_length(about, (unsigned long)bytes);
  return 0;
}
MODEL int ftruncate64(int file, long bytes) { return ftruncate(file, bytes); }
MODEL int truncate(const char *path, long bytes) {
  int file = opened(path, 0);
  return file < 0 ? -1 : ftruncate(file, bytes);
}
MODEL int posix_fallocate(int file, long start, long bytes) {
  struct about *about = file_of(file);
  if (!about)
    return BAD_FILE;
  if (start < 0 || bytes <= 0)
    return INVALID;
  if ((unsigned long)(start + bytes) > about->bytes)
    set_length(about, (unsigned long)(start + bytes));
  return 0;
}
MODEL int posix_fallocate64(int file, long start, long bytes) { return posix_fallocate(file, start, bytes); }
MODEL int fallocate(int file, int mode, long start, long bytes) {
  if (mode)
    __crashproof_not_modeled("`fallocate` with a mode");
  int error = posix_fallocate(file, start, bytes);
  return error ? fails(error) : 0;
}

/* As x86-64 lays it out. */
struct status {
  unsigned long device, number, links;
  unsigned mode, user, group, unused;
  unsigned long special;
  long bytes, block_bytes, blocks, times[6], more[3];
};
enum { REGULAR = 0100644, BLOCK_BYTES = 4096, SECTOR_BYTES = 512 };
static int describe(const struct about *about, struct status *status) {
  memset(status, 0, sizeof *status);
  status->number = 1;
  status->links = 1;
  status->mode = REGULAR;
  status->bytes = (long)about->bytes;
  status->block_bytes = BLOCK_BYTES;
  status->blocks = (status->bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
  return 0;
}
MODEL int fstat(int file, struct status *status) {
  struct about *about = file_of(file);
  return about ? describe(about, status) : fails(BAD_FILE);
}
MODEL int stat(const char *path, struct status *status) {
  struct about *about = __crashproof_about(path);
  return exists(about) ? describe(about, status) : fails(NO_ENTRY);
}
MODEL int lstat(const char *path, struct status *status) { return stat(path, status); }
MODEL int fstat64(int file, struct status *status) { return fstat(file, status); }
MODEL int stat64(const char *path, struct status *status) { return stat(path, status); }
MODEL int lstat64(const char *path, struct status *status) { return stat(path, status); }
enum { FROM_START = 0, FROM_END = 2 };
MODEL long lseek(int file, long by, int from) {
  struct about *about = file_of(file);
  if (!about)
    return fails(BAD_FILE);
  if (from == FROM_END)
    return (long)about->bytes + by;
  if (from != FROM_START)
    __crashproof_not_modeled("where a file is read next");
  return by;
}
MODEL long lseek64(int file, long by, int from) { return lseek(file, by, from); }
MODEL long write(int file, const void *from, size_t bytes) {
  (void)from;
  if (file_of(file))
    __crashproof_not_modeled("to write to a file other than through a mapping");
  return (long)bytes;
}
MODEL long pwrite(int file, const void *from, size_t bytes, long at) {
  (void)at;
  return write(file, from, bytes);
}
MODEL long pwrite64(int file, const void *from, size_t bytes, long at) { return pwrite(file, from, bytes, at); }

enum { PAGE_BYTES = 4096 };
MODEL int getpagesize(void) { return PAGE_BYTES; }
enum { PAGE_SIZE_NAME = 30, PROCESSORS_NAME = 84 };
MODEL long sysconf(int name) {
  if (name != PAGE_SIZE_NAME && name != PROCESSORS_NAME)
    __crashproof_not_modeled("this question to `sysconf`");
  return name == PAGE_SIZE_NAME ? PAGE_BYTES : 2;
}

enum { PRIVATE = 2, TYPE = 15, ANONYMOUS = 32 };
MODEL void *mmap(void *wish, size_t bytes, int protection, int flags, int file, long start) {
  (void)wish, (void)protection;
  if (flags & ANONYMOUS)
    return calloc(1, bytes);
  struct about *about = file_of(file);
  if (!about)
    return fails(BAD_FILE), (void *)-1;
  if (bytes == 0)
    return fails(INVALID), (void *)-1;
  if ((flags & TYPE) == PRIVATE || start != 0)
    __crashproof_not_modeled("to map a part of a file, or a copy of one");
  if (bytes > (about->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES)
    __crashproof_not_modeled("a mapping that is longer than its file");
  return __crashproof_file(paths[file - FIRST_FILE], bytes);
}
MODEL void *mmap64(void *wish, size_t bytes, int protection, int flags, int file, long start) {
  return mmap(wish, bytes, protection, flags, file, start);
}
MODEL int msync(void *start, size_t bytes, int flags) {
  (void)flags;
  crashproof_flush(start, bytes);
  __asm__ volatile("sfence" ::: "memory");
  return 0;
}

struct moment {
  long seconds, rest;
};
static int now(struct moment *moment, long parts) {
  moment->seconds = crashproof_nondet_long();
  moment->rest = crashproof_nondet_long();
  __crashproof_assume(moment->seconds >= 0 && moment->rest >= 0 && moment->rest < parts);
  return 0;
}
MODEL int clock_gettime(int clock, struct moment *moment) {
  (void)clock;
  return now(moment, 1000000000);
}
MODEL int gettimeofday(struct moment *moment, void *zone) {
  (void)zone;
  return now(moment, 1000000);
}

MODEL char *strerror(int error) {
  (void)error;
  return "an error";
}
MODEL int posix_memalign(void **place, size_t align, size_t bytes) {
  void *aligned_alloc(size_t align, size_t bytes);
  *place = aligned_alloc(align, bytes);
  return 0;
}

/* By insertion: few elements, and the least rounds for those in order. */
MODEL void qsort(void *start, size_t count, size_t bytes, int (*compare)(const void *, const void *)) {
  char *elements = start, *one = malloc(bytes);
  for (size_t next = 1; next < count; next++) {
    memcpy(one, elements + next * bytes, bytes);
    size_t at = next;
    for (; at > 0 && compare(elements + (at - 1) * bytes, one) > 0; at--)
      memcpy(elements + at * bytes, elements + (at - 1) * bytes, bytes);
    memcpy(elements + at * bytes, one, bytes);
  }
}
