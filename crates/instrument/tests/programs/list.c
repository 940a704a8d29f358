// A whole program: append to a persistent list, with the flushes it needs.
// flags: -mclwb
#include "test.h"
#include <immintrin.h>

struct node { struct node *next; long value; };
PERSISTENT struct node *root;
static PERSISTENT struct node pool[4];
static PERSISTENT int used;

__attribute__((noinline)) static void persist(void *p) {
  _mm_clwb(p);
  _mm_sfence();
}

__attribute__((noinline)) static void append(long value) {
  struct node *n = &pool[used++];
  n->value = value;
  n->next = root;
  persist(n);
  root = n;
  persist(&root);
}

int main(void) {
  append(1);
  append(2);
  long sum = 0;
  for (struct node *n = root; n; n = n->next) sum += n->value;
  return (int)sum - 3;
}
