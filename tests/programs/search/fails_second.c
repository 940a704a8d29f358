// Recovery repairs one crash; a crash in the middle of the repair is its undoing.
//@ lint: clean, no warnings
//@ variant once:
//@ check: clean
//@ prove: proved
//@ variant twice:
//@ flags check: --crashes 2
//@ check: recovery-fails at COPIED
//@ prove: skip (prove looks at one crash)
#include <crashproof.h>

struct line {
  volatile long value;
} __attribute__((aligned(64)));

struct root {
  struct line state, copy, data;
};

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (!crashproof_crashes()) {
    root->data.value = 1;
    crashproof_persist(&root->data, sizeof root->data);
    root->state.value = 1;
    crashproof_persist(&root->state, sizeof root->state);
    return 0;
  }
  if (root->state.value == 1) {
    root->copy.value = root->data.value; // MARK: COPIED
    root->state.value = 2;
    crashproof_persist(&root->state, sizeof root->state);
    crashproof_persist(&root->copy, sizeof root->copy);
  }
  if (root->state.value == 2)
    crashproof_assert(root->copy.value == 1);
  return 0;
}
