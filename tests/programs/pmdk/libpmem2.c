// libpmem2, provided by the runtime.
//@ args: {dir}/pool
//@ prove: unknown (calls `pmem2_source_from_fd`, which is not defined here)
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ variant plain:
//@ check: fails at LOST
//@ figures: 2 crash points, 3 recoveries
//@ lint: unflushed-write at LOST (known wrong: what pmem2_get_memset_fn returns is not followed)
#include <crashproof.h>
#include <fcntl.h>
#include <libpmem2.h>
#include <string.h>
#include <unistd.h>

struct pool {
  char text[64];
  char more[64];
  long done;
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
  struct pmem2_source *source;
  struct pmem2_config *config;
  struct pmem2_map *map;
  crashproof_assert(pmem2_source_from_fd(&source, fd) == 0 && pmem2_config_new(&config) == 0);
  size_t size;
  crashproof_assert(pmem2_source_size(source, &size) == 0 && size == 1 << 20);
  crashproof_assert(pmem2_map_new(&map, config, source) == PMEM2_E_GRANULARITY_NOT_SET);
  crashproof_assert(pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE) == 0);
  crashproof_assert(pmem2_map_new(&map, config, source) == 0);
  crashproof_assert(pmem2_map_get_size(map) == 1 << 20);
  crashproof_assert(pmem2_map_get_store_granularity(map) == PMEM2_GRANULARITY_CACHE_LINE);
  struct pool *pool = pmem2_map_get_address(map);
  pmem2_persist_fn persist = pmem2_get_persist_fn(map);
  if (pool->done) {
    crashproof_assert(strcmp(pool->text, "hello") == 0 && pool->more[63] == 'y');
    return 0;
  }
  if (crashproof_crashes())
    return 0;
  pmem2_get_memcpy_fn(map)(pool->text, "hello", 6, 0);
  pmem2_get_memset_fn(map)(pool->more, 'y', 64, PMEM2_F_MEM_NOFLUSH); // MARK: LOST
#ifdef GOOD
  pmem2_get_flush_fn(map)(pool->more, 64);
  pmem2_get_drain_fn(map)();
#endif
  pool->done = 1;
  persist(&pool->done, sizeof pool->done);
  pmem2_map_delete(&map);
  pmem2_config_delete(&config);
  pmem2_source_delete(&source);
  close(fd);
  return 0;
}
