// PSan, Figure 1: the child is persistent before it is linked in; the link itself may be lost, and that is all.
//@ variant plain:
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ robust: proved
//@ variant missing: -DMISSING
//@ check: recovery-fails at DATA, survived LINK, window DATA..LINK, primary
//@ lint: unflushed-write at DATA
//@ prove: refuted at claim-violated
//@ robust: refuted at DATA

#include <crashproof.h>

struct child {
  long data;
};
struct node {
  struct child *child;
};

static void add_child(struct node *node, long data) {
  struct child *child = crashproof_alloc(sizeof *child);
  child->data = data; // MARK: DATA
#ifndef MISSING
  crashproof_persist(child, sizeof *child);
#endif
  node->child = child; // MARK: LINK
  crashproof_persist(&node->child, sizeof node->child);
}

int main(void) {
  struct node *root = crashproof_root(sizeof *root);
  if (!crashproof_crashes())
    add_child(root, 42);
  else if (root->child)
    crashproof_assert(root->child->data == 42); // MARK: claim-violated
  return 0;
}
