// C11 atomics.
#include "pool.h"
#include <stdatomic.h>
struct s { _Atomic long next; char pad[56]; long slot[8]; char pad2[64]; _Atomic int ready; _Atomic char c; };
int main(void) {
  struct s *s = pool(4096);
  for (long i = 0; i < atomic_load(&s->ready); i++)
    assert(s->slot[i] == 7 + i);
  while (atomic_load(&s->ready) < 4) {
    long i = atomic_load(&s->ready);
    s->slot[i] = 7 + i; // MARK
    CORRECT(persist(&s->slot[i], 8));
    int expected = (int)i;
    atomic_compare_exchange_strong(&s->ready, &expected, expected + 1);
    persist(&s->ready, 4);
    atomic_fetch_add(&s->next, 1);
    persist(s, 8);
    atomic_exchange(&s->c, 'x');
    atomic_fetch_or(&s->c, 1);
    persist((char *)&s->c, 1);
  }
}
