#include "pm.h"
int main(void) {
  struct data *d = crashproof_root(sizeof *d);
  if (d->valid)
    return d->value == 7 ? 0 : 1;
  d->value = 7;
  d->valid = 1;
  flush(&d->value);
  flush(&d->valid);
  fence();
  return 0;
}
