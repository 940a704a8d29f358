#include "pm.h"
int main(void) {
  struct data *d = crashproof_root(sizeof *d);
  if (d->valid && d->value != 7)
    return 1;
  if (d->valid && strcmp(d->text, "seven") != 0)
    return 2;
  d->value = 7;
  flush(&d->value);
  strcpy(d->text, "seven");
  flush(&d->text);
  d->valid = 1;
  persist(&d->valid);
  return 0;
}
