#include <assert.h>
#include <crashproof.h>

PERSISTENT _Alignas(64) long data;
PERSISTENT _Alignas(64) long ready;

void recover(void) { assert(!ready || data == 42); }

int main(void) {
  if (crashproof_crashes())
    recover();
  else {
    data = 42;
    crashproof_persist(&data, sizeof data);
    ready = 1;
  }
}
