// libpmem, provided by the runtime.
//@ args: {dir}/pool
//@ prove: unknown (calls `pmem_check_version`, which is not defined here)
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ variant plain:
//@ check: fails at LOST
//@ figures: 2 crash points, 13 recoveries
//@ lint: unflushed-write at LOST
//@ variant copy-pmem-memcpy-nodrain-drain: -DCOPY=pmem_memcpy_nodrain -DDRAIN
//@ check: clean
//@ figures: 4 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ variant copy-pmem-memmove-nodrain: -DCOPY=pmem_memmove_nodrain
//@ check: fails at COPIED
//@ figures: 3 crash points, 13 recoveries
//@ lint: missing-barrier at COPIED
//@ lint: publish-before-persist at COPIED
//@ lint: missing-barrier at missing-barrier
//@ variant copy-pmem-memcpy-persist: -DCOPY=pmem_memcpy_persist
//@ check: clean
//@ figures: 4 crash points, 2 recoveries
//@ lint: clean
//@ variant flags-pmem-f-mem-nontemporal: -DFLAGS=PMEM_F_MEM_NONTEMPORAL
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: clean
//@ variant flags-pmem-f-mem-noflush: -DFLAGS=PMEM_F_MEM_NOFLUSH
//@ check: fails at FLAGGED
//@ figures: 2 crash points, 13 recoveries
//@ lint: unflushed-write at FLAGGED
//@ lint: missing-barrier at missing-barrier
//@ variant flags-pmem-f-mem-temporal-pmem-f-mem-nodrain: -DFLAGS=PMEM_F_MEM_TEMPORAL|PMEM_F_MEM_NODRAIN
//@ check: fails at FLAGGED
//@ figures: 2 crash points, 13 recoveries
//@ lint: missing-barrier at FLAGGED
//@ lint: publish-before-persist at FLAGGED
//@ lint: missing-barrier at missing-barrier
#include <crashproof.h>
#include <libpmem.h>
#include <stdio.h>
#include <string.h>

struct pool {
  char text[640];
  long done;
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  crashproof_assert(pmem_check_version(PMEM_MAJOR_VERSION, PMEM_MINOR_VERSION) == NULL);
  size_t mapped;
  int is_pmem;
  crashproof_assert(pmem_map_file("/nowhere/at/all", 4096, PMEM_FILE_CREATE, 0600, NULL, NULL) == NULL);
  crashproof_assert(pmem_errormsg()[0] != 0);
  struct pool *pool = pmem_map_file(argv[1], 1 << 20, PMEM_FILE_CREATE, 0600, &mapped, &is_pmem);
  crashproof_assert(pool && mapped == 1 << 20 && is_pmem);
  crashproof_assert(pmem_is_pmem(pool, sizeof *pool));
  char expected[640];
  memset(expected, 'x', sizeof expected);
  if (pool->done) {
    crashproof_assert(memcmp(pool->text, expected, sizeof expected) == 0);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
#ifdef COPY
  pmem_memset_persist(pool->text, 'x', 3);
  pmem_memset(pool->text + 603, 'x', 37, 0);
  COPY(pool->text + 3, expected, 600); // MARK: COPIED
#ifdef DRAIN
  pmem_drain();
#endif
#elif defined FLAGS
  pmem_memset(pool->text + 600, 'x', 40, 0);
  pmem_memcpy(pool->text, expected, 600, FLAGS); // MARK: FLAGGED
#else
  pmem_memset_persist(pool->text, 'x', 320);
  memcpy(pool->text + 320, expected, 320); // MARK: LOST
#ifdef GOOD
  pmem_flush(pool->text + 320, 320);
  pmem_drain();
#endif
#endif
  pool->done = 1;
#if defined COPY && !defined DRAIN || defined FLAGS
  // clflush orders nothing but itself: what still waits for a fence keeps waiting.
  __builtin_ia32_clflush(&pool->done); // MARK: missing-barrier
#else
  pmem_persist(&pool->done, sizeof pool->done);
#endif
  crashproof_assert(pmem_unmap(pool, mapped) == 0);
  return 0;
}
