#include <crashproof.h>

PERSISTENT _Alignas(64) long first;
PERSISTENT _Alignas(64) long second;

int main(void) {
  if (!crashproof_crashes()) {
    first = 1;
    crashproof_persist(&first, sizeof first);
    second = 1;
  }
}
