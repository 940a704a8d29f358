// Pointers loaded together with other fields and followed later, in another block.
#include "test.h"

struct node { struct node *next; long key, hits; };

__attribute__((noinline)) static long walk(struct node *n) {
  long ordered = 0;
  while (n) {
    struct node *next = n->next;
    long key = n->key;
    if (next && next->key > key) ordered += next->hits++;
    n = next;
  }
  return ordered;
}

__attribute__((noinline)) static void fill(struct node *n) {
  for (int i = 0; i < 3; i++) n[i] = (struct node){i < 2 ? &n[i + 1] : 0, i * 5 % 4, i};
}

int main(void) {
  struct node in_dram[3];
  fill(PM(struct node, 0));
  fill(in_dram);
  long a = walk(PM(struct node, 0)), b = walk(in_dram);
  CHECK(a == b && in_dram[1].hits == PM(struct node, 0)[1].hits);
  return 0;
}
