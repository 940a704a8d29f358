// Arrays that are indexed from another number than 0, and from their end: the sum of address and index lies elsewhere.
//@ lint: clean, no warnings
//@ variant good:
//@ check: clean
//@ prove: proved
//@ variant beyond: -DBUG
//@ check: recovery-fails-nothing-lost at linked
//@ prove: refuted at claim
#include <assert.h>
#include <crashproof.h>
#include <stdbool.h>

struct node {
  long value;
  struct node *next;
};

PERSISTENT struct node nodes[3] __attribute__((aligned(64)));
PERSISTENT struct node *head __attribute__((aligned(64)));

static void push(struct node *node, long value) {
  node->value = value;
  node->next = head;
  crashproof_persist(node, sizeof *node);
  head = node; // MARK: linked
  crashproof_persist(&head, sizeof head);
}

void recover(void) {
  bool seen[2] = {false, false};
  int counts[4] = {0, 0, 0, 0};
  int *end = counts + 4;
  for (struct node *node = head; node; node = node->next) {
    assert(node->value == 1010 || node->value == 1011);
    seen[node->value - 1010] = true;
    end[1008 - node->value]++;
  }
  assert(!seen[1] || seen[0]);
#ifdef BUG
  assert(counts[1] + counts[2] != 2); // MARK: claim
#else
  assert(counts[0] == 0 && counts[3] == 0 && counts[2] == seen[0] && counts[1] == seen[1]);
#endif
}

int main(void) {
  if (crashproof_crashes() > 0) {
    recover();
    return 0;
  }
  push(&nodes[1], 1010);
  push(&nodes[2], 1011);
  return 0;
}
