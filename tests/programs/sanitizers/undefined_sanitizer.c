// What UndefinedBehaviorSanitizer finds in recovery is a failure, even where it would let the program go on.
//@ variant fsanitize-undefined-good: -fsanitize=undefined -DGOOD
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: unknown (PM passed to the unknown function `__ubsan_handle_type_mismatch_v1`: add its source, or describe it with --api)
//@ prove: vacuous
//@ variant fsanitize-undefined: -fsanitize=undefined
//@ check: fails at LOST
//@ figures: 1 crash points, 3 recoveries
//@ lint: unknown (PM passed to the unknown function `__ubsan_handle_type_mismatch_v1`: add its source, or describe it with --api)
//@ lint: unflushed-write at LOST
//@ prove: unknown (calls `__ubsan_handle_add_overflow`, which is not defined here)
//@ variant fsanitize-undefined-fno-sanitize-recover-all: -fsanitize=undefined -fno-sanitize-recover=all
//@ check: fails at LOST
//@ figures: 1 crash points, 3 recoveries
//@ lint: unflushed-write at LOST
//@ prove: unknown (calls `__ubsan_handle_add_overflow_abort`, which is not defined here)
#include <crashproof.h>

struct line {
  volatile int value;
} __attribute__((aligned(64)));

struct root {
  struct line less, done;
};

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (!crashproof_crashes()) {
    root->less.value = 8; // MARK: LOST
#ifdef GOOD
    crashproof_persist(&root->less, sizeof root->less);
#endif
    root->done.value = 1;
    crashproof_persist(&root->done, sizeof root->done);
    return 0;
  }
  volatile int large = 0x7fffffff;
  if (root->done.value)
    large = large - root->less.value + 4;
  return 0;
}
