// An array that is defined elsewhere.
//! unknown 7 global `elsewhere`, which is not defined here
#include <crashproof.h>
extern int elsewhere[];
PERSISTENT int value;
int main(void) {
  value = elsewhere[1];
  return 0;
}
void recover(void) {}
