// Table 3, pminvaders.c:143 and 246, and figure 5: one field is modified, the whole object persisted.
//@ check: skip (a fragment: it has no main)
//@ lint: flush-unmodified at flush-unmodified
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct task_proto {
  uint64_t start, stop, result;
};
struct task {
  struct task_proto proto;
  char history[256];
};

int task_construct(PMEMobjpool *pop, void *ptr, void *arg) {
  struct task *t = ptr;
  t->proto = *(struct task_proto *)arg;
  pmemobj_persist(pop, t, sizeof *t); // MARK: flush-unmodified
  return 0;
}
