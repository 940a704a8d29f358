#include <crashproof.h>

int main(void) {
  long *number = crashproof_root(sizeof *number);
  *number = 1;
  crashproof_persist(number, sizeof *number);
  crashproof_drain(); /* everything is persistent already */
  return 0;
}
