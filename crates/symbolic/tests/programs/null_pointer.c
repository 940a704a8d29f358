//! refuted 12 outside
#include <crashproof.h>
PERSISTENT struct { long *p; } a __attribute__((aligned(64)));
PERSISTENT struct { long ready; } b __attribute__((aligned(64)));
int main(void) {
  a.p = crashproof_alloc(8);
  b.ready = 1;
  return 0;
}
void recover(void) {
  if (b.ready)
    *a.p = 1;
}
