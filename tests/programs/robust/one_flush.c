// Three fields of a line are lost for want of one flush: one finding, and the flush goes after the last of them.
// What was overwritten before anybody could see it does not count.
//@ check: missing-flush at FIRST, survived LINK, window LAST..LINK, primary
//@ lint: unflushed-write at FIRST
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at LAST
//@ prove: vacuous
//@ robust: refuted at not-robust

#include <crashproof.h>

struct node {
  long key, value;
  struct node *next;
};
struct list {
  struct node *head;
};

int main(void) {
  struct list *list = crashproof_root(sizeof *list);
  if (!crashproof_crashes()) {
    struct node *node = crashproof_alloc(sizeof *node);
    node->key = -1; // MARK: not-robust
    node->key = 1;           // MARK: FIRST
    node->value = 2; // MARK: unflushed-write
    node->next = list->head + 1; // MARK: LAST
    list->head = node;       // MARK: LINK
    crashproof_persist(&list->head, sizeof list->head);
    return 0;
  }
  if (list->head) {
    volatile long sum = list->head->key + list->head->value + (list->head->next != 0);
    (void)sum;
  }
  return 0;
}
