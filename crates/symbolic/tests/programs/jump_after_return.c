// The function that set the buffer has returned.
//! unknown 10 has returned
#include <setjmp.h>
static jmp_buf place;
static int set(void) {
  return setjmp(place);
}
int main(void) {
  if (set() == 0)
    longjmp(place, 1);
  return 0;
}
void recover(void) {}
