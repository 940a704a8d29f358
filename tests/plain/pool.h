// A file that is mapped, and what persists it, as programs have them.
#pragma once
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static inline void *pool(size_t bytes) {
  int f = open("pool", O_RDWR | O_CREAT, 0600);
  if (f < 0 || ftruncate(f, bytes))
    _exit(9);
  void *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
  if (p == MAP_FAILED)
    _exit(9);
  return p;
}
static inline void persist(const void *p, size_t bytes) {
  for (uintptr_t at = (uintptr_t)p & ~63ul; at < (uintptr_t)p + bytes; at += 64)
    _mm_clflush((void *)at);
  _mm_sfence();
}
#ifdef BAD
#define CORRECT(x) ((void)0)
#else
#define CORRECT(x) x
#endif
