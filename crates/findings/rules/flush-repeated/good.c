#include <crashproof.h>

struct point {
  long x, y; /* one cache line */
};

int main(void) {
  struct point *point = crashproof_root(sizeof *point);
  point->x = 1;
  point->y = 2;
  crashproof_flush(point, sizeof *point);
  crashproof_drain();
  return 0;
}
