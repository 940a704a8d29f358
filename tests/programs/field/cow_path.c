// libpmem: a search tree that copies the path to what changes, and then its root. Links are offsets; a link to a new node counts
// only when the node that holds it does, and so one drain before the root is enough.
//@ args: {dir}/tree
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant leaf: -DLEAF
//@ check: recovery-fails at key
//@ check: recovery-fails at value
//@ lint: unflushed-write at links
//@ lint: unflushed-write at key
//@ lint: unflushed-write at value
//@ prove: refuted at claim
//@ variant root: -DROOT
//@ check: clean
//@ lint: unflushed-write at root
//@ prove: proved
#include <assert.h>
#include <libpmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A binary search tree that copies the path to what changes, and then swaps the root. Nodes are never freed. */
typedef uint64_t ref; /* offset in the pool, 0 is null */

struct tnode {
  ref left, right;
  uint64_t key;
  char value[40];
};

struct tree {
  ref root;
  ref bump;
  char pad[48];
  char space[64 * 30];
};

static struct tree *T;

static struct tnode *deref(ref r) { return r ? (struct tnode *)((char *)T + r) : NULL; }

static struct tnode *node_new(ref *out) {
  ref r = T->bump ? T->bump : sizeof *T - sizeof T->space;
  if (r + sizeof(struct tnode) > sizeof *T) {
    fputs("full\n", stderr);
    exit(3);
  }
  T->bump = r + sizeof(struct tnode);
  pmem_persist(&T->bump, sizeof T->bump);
  *out = r;
  return deref(r);
}

static ref with(ref old, uint64_t key, const char *value) {
  ref r;
  struct tnode *n = node_new(&r);
  if (old == 0) {
    n->left = n->right = 0; // MARK: links
    n->key = key;            // MARK: key
    strcpy(n->value, value); // MARK: value
#ifdef LEAF
    return r;
#endif
  } else {
    const struct tnode *o = deref(old);
    *n = *o;
    if (key < o->key)
      n->left = with(o->left, key, value);
    else if (key > o->key)
      n->right = with(o->right, key, value);
    else
      strcpy(n->value, value);
  }
  pmem_flush(n, sizeof *n);
  return r;
}

static void put(uint64_t key, const char *value) {
  ref root = with(T->root, key, value);
#ifndef FENCE
  pmem_drain();
#endif
  T->root = root; // MARK: root
#ifndef ROOT
  pmem_persist(&T->root, sizeof T->root);
#endif
}

static int count(ref r, uint64_t low, uint64_t high) {
  if (!r)
    return 0;
  struct tnode *n = deref(r);
  assert(n->key > low && n->key < high); // MARK: claim
  assert(n->value[0] == 'v'); // MARK: claim
  return 1 + count(n->left, low, n->key) + count(n->right, n->key, high);
}

int main(int argc, char **argv) {
  size_t len;
  int pmem;
  if ((T = pmem_map_file(argv[1], sizeof *T, PMEM_FILE_CREATE, 0644, &len, &pmem)) == NULL) {
    perror("pmem_map_file");
    return 1;
  }
  count(T->root, 0, UINT64_MAX);
  put(50, "v50");
  put(20, "v20");
  put(70, "v70");
  put(20, "v20'");
  assert(count(T->root, 0, UINT64_MAX) == 3);
  pmem_unmap(T, len);
  return 0;
}
