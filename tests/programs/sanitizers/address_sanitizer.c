// What AddressSanitizer finds in recovery is a failure; its report is what the finding quotes.
//@ prove: unknown (an allocation of a size that is not known)
//@ variant fsanitize-address-good: -fsanitize=address -DGOOD
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ variant fsanitize-address: -fsanitize=address
//@ check: fails at LOST
//@ figures: 1 crash points, 3 recoveries
//@ lint: unflushed-write at LOST
#include <crashproof.h>
#include <stdlib.h>

struct line {
  volatile long value;
} __attribute__((aligned(64)));

struct root {
  struct line size, done;
};

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (!crashproof_crashes()) {
    root->size.value = 8; // MARK: LOST
#ifdef GOOD
    crashproof_persist(&root->size, sizeof root->size);
#endif
    root->done.value = 1;
    crashproof_persist(&root->done, sizeof root->done);
    return 0;
  }
  if (root->done.value) {
    volatile char *buffer = malloc(root->size.value);
    buffer[7] = 1;
    free((void *)buffer);
  }
  return 0;
}
