#include <crashproof.h>
#include <stdatomic.h>

PERSISTENT _Atomic long committed;

int main(void) {
  if (crashproof_crashes())
    return committed > 1;
  atomic_store_explicit(&committed, 1, memory_order_relaxed);
  crashproof_persist(&committed, sizeof committed);
  return 0;
}
