// What the paper's literal rule reports in hashmap_atomic.c and obj_pmemlog_simple.c, and what is right on
// real machines: a flag around a change, data before its offset, a constructor.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
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
struct log {
  uint64_t write_offset;
  char data[4096];
};

static int create_buckets(PMEMobjpool *pop, void *ptr, void *arg) {
  struct buckets *b = ptr;
  b->nbuckets = *(size_t *)arg;
  pmemobj_memset_persist(pop, &b->bucket, 0, sizeof b->bucket);
  pmemobj_persist(pop, &b->nbuckets, sizeof b->nbuckets);
  return 0;
}

void create(PMEMobjpool *pop, PMEMoid *oid, size_t n) {
  pmemobj_alloc(pop, oid, sizeof(struct buckets), 0, create_buckets, &n);
}

void insert(PMEMobjpool *pop, struct hashmap *map) {
  map->count_dirty = 1;
  pmemobj_persist(pop, &map->count_dirty, sizeof map->count_dirty);
  map->count++;
  pmemobj_persist(pop, &map->count, sizeof map->count);
  map->count_dirty = 0;
  pmemobj_persist(pop, &map->count_dirty, sizeof map->count_dirty);
}

void append(PMEMobjpool *pop, struct log *log, const void *buf, size_t count) {
  pmemobj_memcpy_persist(pop, log->data + log->write_offset, buf, count);
  log->write_offset += count;
  pmemobj_persist(pop, &log->write_offset, sizeof log->write_offset);
}
