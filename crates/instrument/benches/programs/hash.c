// Open-addressing hash table with string-like keys.
#include "bench.h"

struct slot { uint64_t key, value; };
enum { SLOTS = 1 << 16, N = 1 << 15 };
static struct slot *table;
static uint64_t *keys;

static void prepare(void) {
  table = calloc(SLOTS, sizeof *table);
  keys = malloc(N * sizeof *keys);
  for (int i = 0; i < N; i++) keys[i] = next_random() | 1;
}

static struct slot *find(struct slot *t, uint64_t key) {
  uint64_t at = (key * 0x9e3779b97f4a7c15ull) >> 48;
  while (t[at].key && t[at].key != key) at = (at + 1) % SLOTS;
  return &t[at];
}

static uint64_t run(void) {
  uint64_t sum = 0;
  for (int round = 0; round < 20; round++)
    for (int i = 0; i < N; i++) {
      struct slot *s = find(table, keys[i]);
      s->key = keys[i];
      s->value += i;
      sum ^= s->value;
    }
  return sum;
}
