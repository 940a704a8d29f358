#include "pm.h"
int main(void) {
  struct data *d = crashproof_root(sizeof *d);
  if (d->valid)
    return d->value == 7 ? 0 : 1;
  d->value = 7;
  d->valid = 1;
  persist(&d->valid);
  persist(&d->value);
  return 0;
}
