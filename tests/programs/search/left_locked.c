// A lock that shares a line with what is persisted under it: a crash leaves it locked, and recovery waits forever.
//@ variant plain:
//@ check: fails at lock
//@ lint: skip (about the search)
//@ prove: skip (about the search)
//@ variant released: -DRELEASED
//@ check: clean
//@ lint: skip (about the search)
//@ prove: skip (about the search)
#include <crashproof.h>
#include <stdatomic.h>

PERSISTENT static struct {
  _Atomic long lock;
  long value;
} __attribute__((aligned(64))) slots[8];

static void take(int slot) {
  long open = 0;
  while (!atomic_compare_exchange_weak(&slots[slot].lock, &open, 1)) // MARK: lock
    open = 0;
}

int main(void) {
  for (int slot = 0; slot < 8; slot++) {
#ifdef RELEASED
    if (crashproof_crashes() > 0)
      slots[slot].lock = 0;
#endif
    take(slot);
    slots[slot].value++;
    crashproof_persist(&slots[slot], sizeof slots[slot]);
    slots[slot].lock = 0;
    crashproof_persist(&slots[slot], sizeof slots[slot]);
  }
  return 0;
}
