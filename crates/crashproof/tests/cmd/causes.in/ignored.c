#include "pm.h"
int main(void) {
  struct data *d = crashproof_root(sizeof *d);
  if (crashproof_crashes())
    return d->valid && !d->value ? 0 : 0;
  d->value = 7; // crashproof: ignore(missing-flush): a hint, recomputed at start
  d->valid = 1;
  persist(&d->valid);
  return 0;
}
