#include <stdint.h>
#include <crashproof.h>

PERSISTENT long value;

static void set(long to) {
  value = to;
  crashproof_persist(&value, sizeof value);
}

int main(void) {
  set(1);
  return 0;
}
