// Table 4: epochs without a barrier at their end, and an epoch inside another.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier at missing-barrier
//@ lint: missing-barrier-nested at missing-barrier-nested
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

void epoch_begin(void);
void epoch_end(void);
PERSISTENT struct {
  uint64_t a;
  char pad[120];
  uint64_t b;
} data;

void disjoint(void) {
  epoch_begin();
  data.a = 1;
  flush(&data.a, sizeof data.a); // MARK: missing-barrier
  epoch_end();
  epoch_begin();
  data.b = 2;
  persist(&data.b, sizeof data.b);
  epoch_end();
}

void nested(void) {
  epoch_begin();
  epoch_begin();
  data.a = 1;
  flush(&data.a, sizeof data.a); // MARK: missing-barrier-nested
  epoch_end();
  data.b = 2;
  persist(&data.b, sizeof data.b);
  epoch_end();
}
