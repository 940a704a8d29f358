#include <crashproof.h>

PERSISTENT long committed;

int main(void) {
  if (crashproof_crashes())
    return committed > 1;
  committed = 1; /* a compiler may store it in parts */
  crashproof_persist(&committed, sizeof committed);
  return 0;
}
