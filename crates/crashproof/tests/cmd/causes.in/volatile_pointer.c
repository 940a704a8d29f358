#include "pm.h"
int main(void) {
  struct data *d = crashproof_root(sizeof *d);
  if (crashproof_crashes() && d->pointer)
    return *d->pointer == 7 ? 0 : 1;
  long *made = malloc(1 << 20);
  *made = 7;
  d->pointer = made;
  persist(&d->pointer);
  return 0;
}
