// A table of operations; the one that stores forgets to write back.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
struct cell { uint64_t value; uint64_t pad[7]; };
struct ops { void (*put)(struct cell *, uint64_t); void (*done)(struct cell *); };
static void put(struct cell *c, uint64_t v) { c->value = v; } // MARK: unflushed-write
static void done(struct cell *c) { (void)c; _mm_sfence(); }
static const struct ops ops = {put, done};
PERSISTENT struct cell cells[8];
void update(unsigned i, uint64_t v) {
  ops.put(&cells[i & 7], v);
  ops.done(&cells[i & 7]);
}
