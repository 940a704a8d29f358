// Floating-point members.
#include "pool.h"
struct s { double d[8]; float f[16]; int done; };
int main(void) {
  struct s *s = pool(4096);
  if (s->done) {
    double sum = 0;
    for (int i = 0; i < 8; i++)
      sum += s->d[i] * s->f[i];
    assert(sum == 140 * 2);
    return 0;
  }
  for (int i = 0; i < 8; i++) {
    s->d[i] = i;
    s->f[i] = 2 * i; // MARK
  }
  persist(s->d, sizeof s->d);
  CORRECT(persist(s->f, sizeof s->f));
  s->done = 1;
  persist(&s->done, 4);
}
