// A ring of slots: the slot is made persistent, then the position that commits it. Recovery looks at one slot, and
// there are few of them, so that long runs hold few behaviors.
#include <crashproof.h>
#include <stdlib.h>

#define SLOTS 16

struct line {
  volatile long value;
} __attribute__((aligned(64)));

struct ring {
  struct line position, slot[SLOTS];
};

int main(int argc, char **argv) {
  struct ring *ring = crashproof_root(sizeof *ring);
  if (crashproof_crashes()) {
    long position = ring->position.value;
    crashproof_assert(position == 0 || ring->slot[position - 1].value >= position);
    return 0;
  }
  long count = argc > 1 ? atol(argv[1]) : 100;
  for (long i = 0; i < count; i++) {
    struct line *slot = &ring->slot[i % SLOTS];
    slot->value = i % SLOTS + 1;
    crashproof_persist(slot, sizeof *slot);
    ring->position.value = i % SLOTS + 1;
    crashproof_persist(&ring->position, sizeof ring->position);
  }
  return 0;
}
