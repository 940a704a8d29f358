// As pminvaders-flush-unmodified.bad.c, persisting what was modified. An unmodified field on the same cache
// line costs nothing.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct task_proto {
  uint64_t start, stop, result;
};
struct task {
  struct task_proto proto;
  char history[256];
};
struct player {
  uint16_t x;
  uint16_t pad;
  uint32_t timer;
};

int task_construct(PMEMobjpool *pop, void *ptr, void *arg) {
  struct task *t = ptr;
  t->proto = *(struct task_proto *)arg;
  pmemobj_persist(pop, &t->proto, sizeof t->proto);
  return 0;
}

void move_player(PMEMobjpool *pop, struct player *p) {
  p->x++;
  pmemobj_persist(pop, p, sizeof *p);
}
