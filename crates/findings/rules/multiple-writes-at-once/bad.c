#include <stdint.h>
#include <crashproof.h>

PERSISTENT long first;
PERSISTENT long second __attribute__((aligned(64)));

int main(void) {
  first = 1;
  crashproof_flush(&first, sizeof first);
  second = 2;
  crashproof_flush(&second, sizeof second);
  crashproof_drain();
  return 0;
}
