// libpmem2 hands out its functions through pointers: lint follows them, check stands in for them.
//@ args: {dir}/pool
//@ prove: skip (prove has no model of libpmem2)
//@ variant persist: -DPERSIST
//@ check: clean
//@ lint: clean
//@ variant copy: -DCOPY
//@ check: clean
//@ lint: clean
//@ variant no-flush: -DNO_FLUSH
//@ check: fails at UNFLUSHED
//@ lint: unflushed-write at UNFLUSHED
//@ variant nothing:
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
#include <crashproof.h>
#include <fcntl.h>
#include <libpmem2.h>
#include <unistd.h>

struct pool {
  long data __attribute__((aligned(64)));
  long done __attribute__((aligned(64)));
};

static struct pmem2_map *map_pool(const char *path) {
  struct pmem2_source *source;
  struct pmem2_config *config;
  struct pmem2_map *map;
  int file = open(path, O_RDWR | O_CREAT, 0600);
  crashproof_assert(file >= 0 && ftruncate(file, 1 << 20) == 0);
  crashproof_assert(pmem2_source_from_fd(&source, file) == 0 && pmem2_config_new(&config) == 0);
  crashproof_assert(pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE) == 0);
  crashproof_assert(pmem2_map_new(&map, config, source) == 0);
  return map;
}

int main(int count, char **arguments) {
  crashproof_assert(count == 2);
  struct pmem2_map *map = map_pool(arguments[1]);
  struct pool *pool = pmem2_map_get_address(map);
  pmem2_persist_fn persist = pmem2_get_persist_fn(map);
  if (crashproof_crashes()) {
    crashproof_assert(!pool->done || pool->data == 1);
    return 0;
  }
#if defined COPY || defined NO_FLUSH
  long one = 1;
#endif
#if defined COPY
  pmem2_get_memcpy_fn(map)(&pool->data, &one, sizeof one, 0);
#elif defined NO_FLUSH
  pmem2_get_memcpy_fn(map)(&pool->data, &one, sizeof one, PMEM2_F_MEM_NOFLUSH); // MARK: UNFLUSHED
#else
  pool->data = 1; // MARK: LOST
#endif
#ifdef PERSIST
  persist(&pool->data, sizeof pool->data);
#endif
  pool->done = 1;
  persist(&pool->done, sizeof pool->done);
  return 0;
}
