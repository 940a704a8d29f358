// Insertions into and searches of an unbalanced binary tree.
#include "bench.h"

struct node { struct node *left, *right; uint64_t key; uint64_t count; };
enum { N = 100000 };
static struct node *pool;
static uint64_t *keys;

static void prepare(void) {
  pool = malloc(N * sizeof *pool);
  keys = malloc(N * sizeof *keys);
  for (int i = 0; i < N; i++) keys[i] = next_random() % (N / 2);
}

static void insert(struct node **root, struct node *fresh) {
  while (*root) {
    struct node *n = *root;
    if (n->key == fresh->key) { n->count++; return; }
    root = fresh->key < n->key ? &n->left : &n->right;
  }
  *root = fresh;
}

static uint64_t run(void) {
  struct node *root = 0;
  for (int i = 0; i < N; i++) {
    pool[i].left = pool[i].right = 0;
    pool[i].key = keys[i];
    pool[i].count = 1;
    insert(&root, &pool[i]);
  }
  uint64_t sum = 0;
  for (int i = 0; i < N; i++)
    for (struct node *n = root; n; n = keys[i] + 1 < n->key ? n->left : n->right) sum += n->count;
  return sum;
}
