#include <stdint.h>
#include <crashproof.h>

PERSISTENT long value;

int main(void) {
  crashproof_strand_begin();
  value = 1;
  crashproof_persist(&value, sizeof value);
  crashproof_strand_end();
  crashproof_strand_begin();
  value = 2;
  crashproof_persist(&value, sizeof value);
  crashproof_strand_end();
  return 0;
}
