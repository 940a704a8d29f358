// As pminvaders-no-write.bad.c, persisting what was modified where it was modified.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct alien {
  uint16_t x, y;
  uint32_t timer;
};

static PMEMobjpool *pop;

void process_alien(struct alien *alien) {
  if (alien->timer == 0) {
    alien->timer = 1000;
    alien->y++;
  } else {
    alien->timer--;
  }
  pmemobj_persist(pop, alien, sizeof *alien);
}
