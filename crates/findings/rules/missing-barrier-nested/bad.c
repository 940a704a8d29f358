#include <stdint.h>
#include <crashproof.h>

PERSISTENT long inner;
PERSISTENT long outer __attribute__((aligned(64)));

int main(void) {
  crashproof_epoch_begin();
  crashproof_epoch_begin();
  inner = 1;
  crashproof_flush(&inner, sizeof inner);
  crashproof_epoch_end();
  outer = 2;
  crashproof_persist(&outer, sizeof outer);
  crashproof_epoch_end();
  return 0;
}
