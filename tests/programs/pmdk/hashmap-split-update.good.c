// As hashmap-split-update.bad.c, each object made durable at once.
//@ flags lint: --pedantic
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct buckets {
  size_t nbuckets;
  PMEMoid bucket[4];
};
struct hashmap {
  uint32_t seed;
  uint32_t pad;
  uint64_t count;
};

int create_buckets(PMEMobjpool *pop, void *ptr, void *arg) {
  struct buckets *b = ptr;
  b->nbuckets = *(size_t *)arg;
  for (int i = 0; i < 4; i++)
    b->bucket[i] = (PMEMoid){0, 0};
  pmemobj_persist(pop, b, sizeof *b);
  return 0;
}

void insert(PMEMobjpool *pop, struct hashmap *map) {
  map->count++;
  pmemobj_persist(pop, &map->count, sizeof map->count);
}
