// An entry names its pool and holds an offset into it; recovery adds the two. If the name of the pool is lost, the sum is a small
// number: not a pointer to volatile memory, but what a lost store leaves.
//@ lint: skip (what an address is made of is not known to it)
//@ prove: skip (prove has no tables of pools)
//@ check: recovery-fails at POOL
#include <crashproof.h>
#include <stdint.h>
#include <string.h>

struct entry {
  _Alignas(64) uint64_t pool;
  _Alignas(64) uint64_t offset;
};

static PERSISTENT char memory[8 << 20];
static char *pools[2];

int main(void) {
  struct entry *entry = crashproof_root(sizeof *entry);
  pools[1] = memory;
  if (crashproof_crashes()) {
    if (entry->offset != 0)
      crashproof_assert(pools[entry->pool][entry->offset] == 'x');
    return 0;
  }
  uint64_t offset = 0x441490;
  memory[offset] = 'x';
  crashproof_persist(memory + offset, 1);
  entry->pool = 1; // MARK: POOL
  entry->offset = offset;
  crashproof_persist(entry, sizeof *entry);
  return 0;
}
