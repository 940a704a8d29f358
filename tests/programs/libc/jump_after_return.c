// The function that set the buffer has returned.
//@ check: fails-without-crash (the program crashes with a segmentation fault without any power failure)
//@ lint: vacuous
//@ prove: unknown at not-modeled (has returned)
#include <setjmp.h>
static jmp_buf place;
static int set(void) {
  return setjmp(place);
}
int main(void) {
  if (set() == 0)
    longjmp(place, 1); // MARK: not-modeled
  return 0;
}
void recover(void) {}
