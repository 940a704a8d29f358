// Together with the address and undefined behavior sanitizers.
// flags: -fsanitize=address,undefined
// environment: ASAN_OPTIONS=detect_leaks=0
#include "test.h"
#include <stdlib.h>
#include <string.h>

struct node { struct node *next; long key; char name[24]; };

__attribute__((noinline)) static void fill(struct node *n, long key) {
  n->key = key;
  n->next = n;
  memset(n->name, 'a', sizeof n->name);
}

int main(void) {
  struct node *heap = malloc(sizeof *heap), *p = PM(struct node, 0);
  fill(heap, 1);
  fill(p, 2);
  CHECK(heap->next->key + p->next->key == 3);
  free(heap);
  return 0;
}
