#include <crashproof.h>

int main(void) {
  long *number = crashproof_root(sizeof *number);
  *number = 1;
  crashproof_persist(number, sizeof *number);
  return 0;
}
