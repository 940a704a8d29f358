/*
 * A tree whose nodes get children. The pointer to the child is the commit: once it is in persistent memory,
 * recovery follows it. Here nothing makes sure that the child's data is there by then.
 *
 * add_child.c is the same with the flush that is missing.
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
