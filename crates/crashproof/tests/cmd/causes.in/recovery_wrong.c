#include "pm.h"
int main(void) {
  struct data *d = crashproof_root(sizeof *d);
  if (d->value == 7)
    return 3;
  d->value = 7;
  persist(&d->value);
  return 0;
}
