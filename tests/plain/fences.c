// mfence before and after the flushes, as many publications print it, with locked instructions in the same functions.
#include "pool.h"
#include <stdatomic.h>
struct s { _Alignas(64) long value[8]; _Alignas(64) atomic_long count; _Alignas(64) atomic_int lock; };
static inline void clflush(const void *p, size_t bytes) {
  _mm_mfence();
  for (uintptr_t at = (uintptr_t)p & ~63ul; at < (uintptr_t)p + bytes; at += 64)
    _mm_clflush((void *)at);
  _mm_mfence();
}
int main(void) {
  struct s *s = pool(4096);
  for (long i = 0; i < atomic_load(&s->count); i++)
    assert(s->value[i] == 7 + i);
  atomic_store(&s->lock, 0);
  clflush(&s->lock, 4);
  while (atomic_load(&s->count) < 3) {
    int expected = 0;
    while (!atomic_compare_exchange_weak(&s->lock, &expected, 1))
      expected = 0;
    _mm_mfence();
    long i = atomic_load(&s->count);
    s->value[i] = 7 + i; // MARK
    CORRECT(clflush(&s->value[i], 8));
    atomic_fetch_add(&s->count, 1);
    clflush(&s->count, 8);
    atomic_store(&s->lock, 0);
  }
}
