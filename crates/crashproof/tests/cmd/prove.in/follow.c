#include <assert.h>
#include <crashproof.h>

PERSISTENT _Alignas(64) struct node {
  long value;
  struct node *next;
} nodes[2];
PERSISTENT _Alignas(64) struct node *head;

void recover(void) {
  long found = 0;
  for (struct node *node = head; node; node = node->next)
    found += node->value;
  assert(found == 0 || found == 1 || found == 3);
}

int main(void) {
  if (crashproof_crashes()) {
    recover();
    return 0;
  }
  for (int i = 0; i < 2; i++) {
    nodes[i].value = i + 1;
    nodes[i].next = head;
#ifdef FLUSH
    crashproof_persist(&nodes[i], sizeof nodes[i]);
#endif
    head = &nodes[i];
    crashproof_persist(&head, sizeof head);
  }
}
