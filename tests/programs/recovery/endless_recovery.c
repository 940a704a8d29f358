// A crash can leave a list that ends in itself.
//@ cflags: -fno-finite-loops
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ check: recovery-fails at unflushed-write
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim (terminates)
#include <crashproof.h>
struct node {
  struct node *next;
  long pad[7];
};
PERSISTENT struct node nodes[2] __attribute__((aligned(64)));
PERSISTENT struct node *head __attribute__((aligned(64)));
int main(void) {
  nodes[0].next = &nodes[0];
  crashproof_persist(&nodes[0], 8);
  head = &nodes[0]; // MARK: recovery-fails-nothing-lost
  crashproof_persist(&head, 8);
  nodes[0].next = 0; // MARK: unflushed-write
  return 0;
}

void recover(void) {
  struct node *node = head;
  while (node) // MARK: claim
    node = node->next;
}
