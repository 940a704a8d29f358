#include "pm.h"
int main(void) {
  struct data *d = crashproof_root(sizeof *d);
  if (d->valid) {
    if (d->value != 7)
      abort();
    return 0;
  }
  d->valid = 1;
  persist(&d->valid);
  d->value = 7;
  persist(&d->value);
  return 0;
}
