// What is published happens together; what is cancelled does not happen.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: proved
#include "pmemobj.h"
struct action {
  char opaque[128];
};
PMEMoid pmemobj_reserve(PMEMobjpool *, struct action *, size_t, unsigned long);
void pmemobj_set_value(PMEMobjpool *, struct action *, unsigned long *, unsigned long);
int pmemobj_publish(PMEMobjpool *, struct action *, size_t);
void pmemobj_cancel(PMEMobjpool *, struct action *, size_t);
struct root {
  char before[48];
  unsigned long a LINE, b LINE;
};
int main(void) {
  struct root *root = begin(sizeof *root);
  struct action actions[3];
  PMEMoid object = pmemobj_reserve(pool, &actions[0], 8, 1);
  long *value = pmemobj_direct(object);
  *value = 5;
  pmemobj_persist(pool, value, sizeof *value);
  pmemobj_set_value(pool, &actions[1], &root->a, object.off);
  pmemobj_set_value(pool, &actions[2], &root->b, object.off);
  pmemobj_publish(pool, actions, 3);
  pmemobj_set_value(pool, &actions[0], &root->a, 1);
  pmemobj_cancel(pool, actions, 1);
  crashproof_assert(root->a == object.off);
  return 0;
}
void recover(void) {
  struct root *root = find(sizeof *root);
  if (!root || !root->a)
    return;
  PMEMoid object = {0x706f6f6c, root->b};
  crashproof_assert(root->a == root->b && *(long *)pmemobj_direct(object) == 5);
}
