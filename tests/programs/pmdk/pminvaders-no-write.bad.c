// Tables 3 and 8, pminvaders.c:249, 256, 266, 301, 351: an object is persisted also on the path that does
// not modify it.
//@ check: skip (a fragment: it has no main)
//@ lint: redundant-flush at redundant-flush
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct alien {
  uint16_t x, y;
  uint32_t timer;
};

static PMEMobjpool *pop;

static int timer_tick(uint32_t *timer) {
  int ret = *timer == 0 || (*timer)-- == 0;
  pmemobj_persist(pop, timer, sizeof *timer);
  return ret;
}

void process_alien(struct alien *alien) {
  if (timer_tick(&alien->timer)) {
    alien->timer = 1000;
    alien->y++;
  }
  pmemobj_persist(pop, alien, sizeof *alien); // MARK: redundant-flush
}
