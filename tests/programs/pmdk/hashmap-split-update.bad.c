// Tables 3 and 8, hashmap_atomic.c:120, 264, 285, 496 and figure 1: fields of one object in several epochs.
//@ flags lint: --pedantic
//@ check: skip (a fragment: it has no main)
//@ lint: split-update at split-update
//@ lint: split-update at split-update-2
//@ lint: split-update at split-update-3
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct buckets {
  size_t nbuckets;
  char pad[56];
  PMEMoid bucket[4];
};
struct hashmap {
  uint32_t seed;
  char pad[60];
  uint64_t count;
  char more[56];
  uint32_t count_dirty;
};

int create_buckets(PMEMobjpool *pop, void *ptr, void *arg) {
  struct buckets *b = ptr;
  b->nbuckets = *(size_t *)arg; // MARK: split-update
  pmemobj_memset_persist(pop, &b->bucket, 0, sizeof b->bucket);
  pmemobj_persist(pop, &b->nbuckets, sizeof b->nbuckets);
  return 0;
}

void insert(PMEMobjpool *pop, struct hashmap *map) {
  map->count_dirty = 1;
  pmemobj_persist(pop, &map->count_dirty, sizeof map->count_dirty);
  map->count++; // MARK: split-update-2
  pmemobj_persist(pop, &map->count, sizeof map->count);
  map->count_dirty = 0; // MARK: split-update-3
  pmemobj_persist(pop, &map->count_dirty, sizeof map->count_dirty);
}
