/*
 * What programs ask of the system, as the prover executes it: files that are mapped, clocks, errors by name. A mapped file
 * is persistent memory, zero at first, as for libpmem; that it exists is never lost.
 */
#define MODEL __attribute__((weak))
typedef unsigned long size_t;

void __crashproof_not_modelled(const char *what);
void *__crashproof_file(const char *path, size_t bytes);
long crashproof_nondet_long(void);
void crashproof_flush(const void *start, size_t bytes);
void __crashproof_assume(int condition);
void *calloc(size_t count, size_t bytes);
void *malloc(size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

enum { FIRST_FILE = 3, MOST_FILES = 16 };
static const char *paths[MOST_FILES];
static int files;
static int opened(const char *path) {
  if (files == MOST_FILES)
    __crashproof_not_modelled("a program with so many files");
  paths[files] = path;
  return FIRST_FILE + files++;
}
MODEL int open(const char *path, int flags, ...) {
  (void)flags;
  return opened(path);
}
MODEL int open64(const char *path, int flags, ...) {
  (void)flags;
  return opened(path);
}
MODEL int ftruncate(int file, long bytes) { return file >= FIRST_FILE && bytes >= 0 ? 0 : -1; }
MODEL int posix_fallocate(int file, long start, long bytes) { return file >= FIRST_FILE && start + bytes >= 0 ? 0 : 9; }
MODEL int fallocate(int file, int mode, long start, long bytes) {
  (void)mode;
  return posix_fallocate(file, start, bytes) ? -1 : 0;
}

enum { PRIVATE = 2, TYPE = 15, ANONYMOUS = 32 };
MODEL void *mmap(void *wish, size_t bytes, int protection, int flags, int file, long start) {
  (void)wish, (void)protection;
  if (flags & ANONYMOUS)
    return calloc(1, bytes);
  if ((flags & TYPE) == PRIVATE || start != 0 || file < FIRST_FILE || file >= FIRST_FILE + files)
    __crashproof_not_modelled("to map a part of a file, or a copy of one");
  return __crashproof_file(paths[file - FIRST_FILE], bytes);
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
