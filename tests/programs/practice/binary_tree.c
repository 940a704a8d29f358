// A binary tree of pointers; recursion finds where a node belongs.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant node: -DBUG=1
//@ lint: unflushed-write at key
//@ lint: unflushed-write at children
//@ lint: unflushed-write at children
//@ variant link: -DBUG=2
//@ lint: publish-before-persist at link
//@ variant next: -DBUG=3
//@ lint: unflushed-write at next
//@ variant pointer: -DBUG=4
//@ lint: unflushed-write at key
//@ lint: unflushed-write at children
//@ lint: unflushed-write at children
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct tnode {
  long key;
  struct tnode *left;
  struct tnode *right;
  long pad[5];
};

struct tree {
  struct tnode *root;
  long used;
  long pad[6];
  struct tnode nodes[32];
};

static void flush(void *p) { _mm_clflush(p); }

static void commit(void *p, size_t len) {
  for (size_t i = 0; i < len; i += 64)
    flush((char *)p + i);
  _mm_mfence();
}

static struct tree *tree_open(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct tree)) < 0)
    return NULL;
  void *at = mmap((void *)0x10000000000, sizeof(struct tree), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED)
    return NULL;
  return at;
}

static struct tnode *new_node(struct tree *t, long key) {
  struct tnode *n = &t->nodes[t->used];
  t->used++; // MARK: next
#if BUG != 3
  commit(&t->used, sizeof t->used);
#endif
  n->key = key; // MARK: key
  n->left = n->right = NULL; // MARK: children
#if BUG == 4
  commit(&n, sizeof n);
#elif BUG != 1
  commit(n, sizeof *n);
#endif
  return n;
}

static void insert_at(struct tree *t, struct tnode **where, long key) {
  if (*where == NULL) {
    *where = new_node(t, key); // MARK: link
#if BUG != 2
    commit(where, sizeof *where);
#endif
    return;
  }
  if (key < (*where)->key)
    insert_at(t, &(*where)->left, key);
  else
    insert_at(t, &(*where)->right, key);
}

static long check(struct tree *t, struct tnode *n, long low, long high) {
  if (!n)
    return 0;
  assert(n < t->nodes + t->used);
  assert(n->key > low && n->key < high);
  return 1 + check(t, n->left, low, n->key) + check(t, n->right, n->key, high);
}

int main(int argc, char **argv) {
  struct tree *t = tree_open(argv[1]);
  if (!t)
    return 1;
  long count = check(t, t->root, 0, 1000);
  if (count == 0) {
    insert_at(t, &t->root, 50);
    insert_at(t, &t->root, 20);
    insert_at(t, &t->root, 70);
  }
  return 0;
}
