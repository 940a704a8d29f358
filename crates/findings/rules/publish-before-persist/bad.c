#include <stdint.h>
#include <crashproof.h>

struct node {
  long key;
  struct node *next;
};
PERSISTENT struct node *head;

int main(void) {
  struct node *node = crashproof_alloc(sizeof *node);
  node->key = 1;
  node->next = head;
  head = node;
  crashproof_persist(node, sizeof *node);
  crashproof_persist(&head, sizeof head);
  return 0;
}
