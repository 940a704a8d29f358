// Whichever member is stored to is written back.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
struct pair { uint64_t a; char gap[120]; uint64_t b; };
void set(struct pair *p, int which, uint64_t v) {
  uint64_t *at = which ? &p->a : &p->b;
  *at = v;
  persist(at, 8);
}
void set2(struct pair *p, int which, uint64_t v) {
  if (which)
    p->a = v;
  else
    p->b = v;
  if (which)
    persist(&p->a, 8);
  else
    persist(&p->b, 8);
}
