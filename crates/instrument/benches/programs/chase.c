// Pointer chasing through a list scattered over memory.
#include "bench.h"

struct node { struct node *next; uint64_t key; uint64_t hits; };
enum { N = 1 << 16 };
static struct node *head;

static void prepare(void) {
  struct node *nodes = calloc(N, sizeof *nodes);
  uint32_t *order = malloc(N * sizeof *order);
  for (uint32_t i = 0; i < N; i++) order[i] = i;
  for (uint32_t i = N - 1; i > 0; i--) {
    uint32_t j = next_random() % (i + 1), t = order[i];
    order[i] = order[j], order[j] = t;
  }
  for (uint32_t i = 0; i < N; i++) {
    nodes[order[i]].key = i;
    nodes[order[i]].next = i + 1 < N ? &nodes[order[i + 1]] : 0;
  }
  head = &nodes[order[0]];
  free(order);
}

static uint64_t run(void) {
  uint64_t sum = 0;
  for (int round = 0; round < 20; round++)
    for (struct node *n = head; n; n = n->next) {
      if (n->key & 1) n->hits++;
      sum += n->key ^ n->hits;
    }
  return sum;
}
