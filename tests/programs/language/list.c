// Pointers in persistent memory; the list is walked with a bound that is enough.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
struct node {
  long value;
  struct node *next;
};
PERSISTENT struct node *head __attribute__((aligned(64)));
static void push(long value) {
  struct node *node = crashproof_alloc(sizeof *node);
  node->value = value;
  node->next = head;
  crashproof_persist(node, sizeof *node);
  head = node;
  crashproof_persist(&head, sizeof head);
}
int main(void) {
  for (int i = 1; i <= 3; i++)
    push(i);
  return 0;
}
void recover(void) {
  long expected = head ? head->value : 0;
  for (struct node *node = head; node; node = node->next)
    crashproof_assert(node->value == expected--);
  crashproof_assert(expected == 0);
}
