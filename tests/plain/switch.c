// A switch, which jumps through a table.
#include "pool.h"
struct s { int kind[16]; int sum[16]; int n; };
static int value(int kind) {
  switch (kind) {
  case 0: return 3;
  case 1: return 1;
  case 2: return 4;
  case 3: return 1;
  case 4: return 5;
  case 5: return 9;
  case 6: return 2;
  default: return 6;
  }
}
int main(void) {
  struct s *s = pool(4096);
  for (int i = 0; i < s->n; i++)
    assert(s->sum[i] == value(s->kind[i]));
  for (int i = s->n; i < 12; i++) {
    s->kind[i] = i % 8;
    s->sum[i] = value(i % 8); // MARK
    persist(&s->kind[i], 4);
    CORRECT(persist(&s->sum[i], 4));
    s->n++;
    persist(&s->n, 4);
  }
}
