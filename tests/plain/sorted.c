// qsort on persistent memory.
#include "pool.h"
struct s { int n; char pad[60]; int v[64]; };
static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
  struct s *s = pool(4096);
  for (int i = 1; i < s->n; i++)
    assert(s->v[i - 1] <= s->v[i]);
  if (s->n)
    return 0;
  for (int i = 0; i < 20; i++)
    s->v[i] = i * 7 % 20 + 1;
  qsort(s->v, 20, sizeof(int), order);
  persist(s->v, 64);
  CORRECT(persist(s->v + 16, 16));
  s->n = 20;
  persist(&s->n, 4);
}
