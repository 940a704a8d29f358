// xchg, and a state machine.
#include "pool.h"
struct s { long a[8]; long b[8]; long state; };
int main(void) {
  struct s *s = pool(4096);
  if (s->state == 1)
    assert(s->a[0] == 1);
  if (s->state == 2)
    assert(s->b[0] == 2 && s->a[0] == 1);
  if (s->state == 0) {
    s->a[0] = 1;
    persist(s->a, 8);
    s->state = 1;
    persist(&s->state, 8);
  }
  if (s->state == 1) {
    long old = 2;
    __asm__ volatile("xchg %0, %1" : "+r"(old), "+m"(s->b[0])::"memory"); // MARK
    CORRECT(persist(s->b, 8));
    s->state = 2;
    persist(&s->state, 8);
  }
}
