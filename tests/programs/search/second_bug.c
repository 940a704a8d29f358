// The constructor's flush is missing, which fails in nearly every state; behind it there is another bug, at the very end.
//@ check: fails at constructor
//@ check: fails at total
//@ lint: skip (about the search)
//@ prove: skip (about the search)
#include <crashproof.h>

enum { NODES = 40 };

struct node {
  long key, check;
} __attribute__((aligned(64)));

PERSISTENT static struct node nodes[NODES + 1];
PERSISTENT static long head __attribute__((aligned(64)));
PERSISTENT static long total __attribute__((aligned(64)));
PERSISTENT static long confirmed __attribute__((aligned(64)));

static void add(long key) {
  nodes[key].key = key;
  nodes[key].check = key + 1; // MARK: constructor
  head = key;
  crashproof_persist(&head, sizeof head);
}

int main(void) {
  if (crashproof_crashes() > 0) {
    for (long key = 1; key <= head; key++)
      crashproof_assert(nodes[key].check == nodes[key].key + 1);
    crashproof_assert(!confirmed || total == NODES);
    return 0;
  }
  for (long key = 1; key <= NODES; key++)
    add(key);
  total = NODES; // MARK: total
  confirmed = 1;
  crashproof_persist(&confirmed, sizeof confirmed);
  return 0;
}
