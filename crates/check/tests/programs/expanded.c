//! -O2: error at LOST (1 places, 4 recoveries)
//! -O2 -DSTRICT: error at LOST (1 places, 4 recoveries)
//! -O2 -DGOOD: clean (2 places, 2 recoveries)
//! -O2 -DGOOD -DSTRICT: clean (2 places, 2 recoveries)
// The code generator turns a comparison of a few bytes into loads, after everything was instrumented. They must be
// seen all the same.
#include <crashproof.h>
#include <string.h>

struct root {
  char name[16];
  long pad[8];
  long done;
};

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (crashproof_crashes()) {
    if (r->done)
      crashproof_assert(memcmp(r->name, "persistentmemory", 16) == 0);
    return 0;
  }
  memcpy(r->name, "persistentmemory", 16); // LOST
#ifdef GOOD
  crashproof_persist(r->name, sizeof r->name);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
