#include <crashproof.h>

struct point {
  long x, y; /* one cache line */
};

int main(void) {
  struct point *point = crashproof_root(sizeof *point);
  point->x = 1;
  point->y = 2;
  crashproof_flush(&point->x, sizeof point->x);
  crashproof_flush(&point->y, sizeof point->y); /* the same line */
  crashproof_drain();
  return 0;
}
