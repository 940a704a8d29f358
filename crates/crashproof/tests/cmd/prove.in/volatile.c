#include <assert.h>

int main(void) {
  static int value;
  value = 1;
  assert(value == 1);
  return 0;
}
