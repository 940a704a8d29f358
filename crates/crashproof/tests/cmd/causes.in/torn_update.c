#include "pm.h"
#include <assert.h>
int main(void) {
  struct data *d = crashproof_root(sizeof *d);
  assert(d->value + d->other == 0);
  if (crashproof_crashes())
    return 0;
  d->value = 10;
  d->other = -10;
  persist(&d->value);
  persist(&d->other);
  return 0;
}
