/* A pool in a mapped file, as programs without a library for it have it. */
#pragma once
#include <crashproof.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE 64

/* Inlined, so that reports name the caller. */
#define POOL_INLINE static inline __attribute__((always_inline, unused))

/* Writes a range back, line by line; a fence must follow. */
POOL_INLINE void flush(const volatile void *start, size_t bytes) {
  uintptr_t line = (uintptr_t)start & ~(uintptr_t)(LINE - 1);
  for (; line < (uintptr_t)start + bytes; line += LINE)
    __asm__ volatile("clwb %0" : "+m"(*(volatile char *)line));
}

POOL_INLINE void fence(void) { __asm__ volatile("sfence" ::: "memory"); }

POOL_INLINE void persist(const volatile void *start, size_t bytes) {
  flush(start, bytes);
  fence();
}

/* Maps a pool, which is created with zeros if it is not there. */
POOL_INLINE void *pool_map(const char *path, size_t bytes) {
  int file = open(path, O_RDWR | O_CREAT, 0666);
  if (file < 0 || ftruncate(file, (off_t)bytes)) {
    perror(path);
    exit(2);
  }
  void *pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (pool == MAP_FAILED) {
    perror("mmap");
    exit(2);
  }
  return pool;
}

/* What recovery must find; ends the process otherwise. A silent build looks, but goes on. */
#ifdef SILENT
static volatile int pool_ignored __attribute__((unused));
#define VERIFY(condition) (pool_ignored = !(condition))

/* Nor does it fail if it goes astray or gives up: it ends, and what it read is all that counts. */
#include <signal.h>
static void pool_ended(void) { _exit(0); }
static void pool_astray(int number) {
  (void)number;
  _exit(0);
}
__attribute__((constructor)) static void pool_expect_anything(void) {
  atexit(pool_ended);
  signal(SIGSEGV, pool_astray);
  signal(SIGBUS, pool_astray);
  signal(SIGFPE, pool_astray);
  signal(SIGABRT, pool_astray);
}
#else
#define VERIFY(condition)                                                                                  \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                        \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)
#endif
