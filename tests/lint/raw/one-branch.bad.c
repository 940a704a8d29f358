// Only one branch writes back.
#include "raw.h"
struct pair { uint64_t a; char gap[120]; uint64_t b; };
void set(struct pair *p, int which, uint64_t v) {
  if (which)
    p->a = v;
  else
    p->b = v; //~ unflushed-write
  if (which)
    persist(&p->a, 8);
}
