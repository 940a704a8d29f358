// Accesses that share one check keep their order and their values.
#include "test.h"

struct body { double x, y, vx, vy; int hits; };

__attribute__((noinline)) static void step(struct body *b) {
  b->x += b->vx * 2;
  b->y += b->vy * 2;
  b->hits++;
}

__attribute__((noinline)) static void swap(long *p) {
  long a = p[0], b = p[1];
  p[0] = b;
  p[1] = a;
}

int main(void) {
  struct body in_dram = {1, 2, 3, 4, 0}, *p = PM(struct body, 0);
  *p = in_dram;
  step(p);
  step(&in_dram);
  CHECK(p->x == 7 && p->y == 10 && p->hits == 1);
  CHECK(in_dram.x == 7 && in_dram.y == 10 && in_dram.hits == 1);
  long *q = PM(long, 256);
  q[0] = 1;
  q[1] = 2;
  swap(q);
  CHECK(q[0] == 2 && q[1] == 1);
  return 0;
}
