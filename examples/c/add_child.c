/*
 * A tree whose nodes get children. The pointer to the child is the commit: once it is in persistent memory,
 * recovery follows it. The child's data must be there by then, and it is: it is flushed and fenced first.
 *
 * add_child_missing_flush.c is the same without that flush.
 */
#include <crashproof.h>

struct child {
  long data;
};

struct node {
  struct child *child;
};

static void add_child(struct node *node, long data) {
  struct child *child = crashproof_alloc(sizeof *child);
  child->data = data;
  crashproof_persist(child, sizeof *child);
  node->child = child; /* the commit */
  crashproof_persist(&node->child, sizeof node->child);
}

int main(void) {
  struct node *root = crashproof_root(sizeof *root);
  if (root->child) {
    crashproof_assert(root->child->data == 42);
    return 0;
  }
  add_child(root, 42);
  return 0;
}
