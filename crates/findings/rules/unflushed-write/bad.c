#include <stdint.h>
#include <crashproof.h>

struct point {
  long x;
  char other_line[64];
  long y;
};

int main(void) {
  struct point *point = crashproof_root(sizeof *point);
  point->x = 1;
  point->y = 2;
  crashproof_persist(&point->x, sizeof point->x);
  return 0;
}
