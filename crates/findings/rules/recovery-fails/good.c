#include <crashproof.h>

PERSISTENT __attribute__((aligned(64))) long data;
PERSISTENT __attribute__((aligned(64))) long valid;

int main(void) {
  if (valid) {
    crashproof_assert(data == 42);
    return 0;
  }
  data = 42;
  crashproof_persist(&data, sizeof data);
  valid = 1;
  crashproof_persist(&valid, sizeof valid);
  return 0;
}
