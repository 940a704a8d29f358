// Only one branch writes back.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
struct pair { uint64_t a; char gap[120]; uint64_t b; };
void set(struct pair *p, int which, uint64_t v) {
  if (which)
    p->a = v;
  else
    p->b = v; // MARK: unflushed-write
  if (which)
    persist(&p->a, 8);
}
