// An atomic store, which gcc makes an exchange: recovery that overwrites a value does not read it.
#include "pool.h"
#include <stdatomic.h>
struct s { _Atomic unsigned count, pad[15], data[16], hint[16]; };
static void set(_Atomic unsigned *at, unsigned value) { atomic_store(at, value); }
int main(void) {
  struct s *s = pool(4096);
  assert(s->count == 0 || s->data[0] == 7);
  // Never flushed: recovery computes it again.
  set(&s->hint[0], s->count);
  if (s->count == 2)
    return 0;
  atomic_store_explicit(&s->data[0], 7, memory_order_relaxed); // MARK
  CORRECT(persist(&s->data[0], 4));
  set(&s->count, 1);
  persist(&s->count, 4);
  atomic_store(&s->hint[0], s->count);
  set(&s->count, 2);
  persist(&s->count, 4);
}
