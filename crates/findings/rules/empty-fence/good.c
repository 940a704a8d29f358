#include <stdint.h>
#include <crashproof.h>

PERSISTENT long value;

int main(void) {
  value = 1;
  crashproof_persist(&value, sizeof value);
  return 0;
}
