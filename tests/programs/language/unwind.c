// The same with a bound that is too small: never a pass.
//@ flags prove: --unwind 2
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: unknown at not-modeled (goes round more than 2 times)
#include <crashproof.h>
struct node {
  struct node *next;
};
PERSISTENT struct node *head __attribute__((aligned(64)));
int main(void) {
  for (int i = 1; i <= 4; i++) {
    struct node *node = crashproof_alloc(sizeof *node);
    node->next = head;
    crashproof_persist(node, sizeof *node);
    head = node; // MARK: unflushed-write
  }
  return 0;
}
void recover(void) {
  for (struct node *node = head; node; node = node->next) // MARK: not-modeled
    ;
}
