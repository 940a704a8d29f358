// Recovery releases the locks of a tree and does not flush that: the next recovery releases them again. That holds only if every
// start does so, before it reads them.
//@ check: skip (written for lint: what is lost is a lock)
//@ prove: skip (written for lint: what is lost is a lock)
//@ flags lint: --pm-heap
//@ variant always:
//@ lint: clean
//@ variant unless-closed: -DUNLESS_CLOSED
//@ lint: unflushed-write at released
//@ lint: flush-unmodified at fresh
//@ variant reads-first: -DREADS_FIRST
//@ lint: unflushed-write at released
//@ lint: flush-unmodified at fresh
#include <crashproof.h>
#include <stdlib.h>

struct node {
  int lock;
  int was_held;
  char apart[56];
  long value;
  struct node *left, *right;
};

PERSISTENT struct node *root;
PERSISTENT long closed;

static void release(struct node *node) {
  if (!node)
    return;
#ifdef READS_FIRST
  if (__atomic_load_n(&node->lock, __ATOMIC_RELAXED))
    abort();
#endif
  node->lock = 0; // MARK: released
  release(node->left);
  release(node->right);
}

static struct node *find(long value) {
  struct node *node = root;
  while (node && node->value != value)
    node = node->value < value ? node->right : node->left;
  return node;
}

static void set(struct node *node, long value) {
  while (__atomic_exchange_n(&node->lock, 1, __ATOMIC_ACQUIRE))
    ;
  node->value = value;
  crashproof_persist(&node->value, sizeof node->value);
  __atomic_store_n(&node->lock, 0, __ATOMIC_RELEASE);
  crashproof_persist(&node->lock, sizeof node->lock);
}

static struct node *new_node(long value) {
  struct node *node = calloc(1, sizeof *node);
  if (!node)
    abort();
  node->value = value;
  crashproof_persist(node, sizeof *node); // MARK: fresh
  return node;
}

int main(int argc, char **argv) {
  if (!root) {
    root = new_node(1);
    crashproof_persist(&root, sizeof root);
  }
#ifdef UNLESS_CLOSED
  if (!closed)
#endif
    release(root);
  struct node *node = find(argc);
  if (node)
    set(node, argc + 1);
  closed = 1;
  crashproof_persist(&closed, sizeof closed);
  return 0;
}
