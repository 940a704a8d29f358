// Table 4: concurrent strands that depend on each other.
//@ flags lint: --model strand
//@ check: skip (a fragment: it has no main)
//@ lint: concurrent-strands at concurrent-strands
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

void strand_begin(void);
void strand_end(void);
PERSISTENT struct {
  uint64_t a, b;
} __attribute__((aligned(64))) data;

void update(void) {
  strand_begin();
  data.a = 1;
  persist(&data.a, sizeof data.a);
  strand_end();
  strand_begin();
  data.b = data.a + 1; // MARK: concurrent-strands
  persist(&data.b, sizeof data.b);
  strand_end();
}
