/* Flushes and fences as programs without a library write them. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PERSISTENT __attribute__((section("crashproof_pm")))

static inline void flush(const void *start, size_t bytes) {
  uintptr_t line = (uintptr_t)start & ~(uintptr_t)63;
  for (; line < (uintptr_t)start + bytes; line += 64)
    _mm_clwb((void *)line);
}
static inline void persist(const void *start, size_t bytes) {
  flush(start, bytes);
  _mm_sfence();
}
