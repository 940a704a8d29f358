// Nobody said what there is to read.
//! unknown 5 --stdin
#include <stdio.h>
int main(void) {
  return getchar() == 'x';
}
void recover(void) {}
