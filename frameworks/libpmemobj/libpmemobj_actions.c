/* Reserving and publishing of libpmemobj, as the prover executes it: what is published happens together. */
#include "pool.h"

enum kind { HEAP, MEMORY };
struct action {
  enum kind kind;
  unsigned data[3];
  union {
    struct {
      uint64_t offset, usable_size;
    } heap;
    struct {
      uint64_t *place;
      uint64_t value;
    } set;
    uint64_t data2[14];
  };
};

MODEL oid pmemobj_xreserve(pool *pop, struct action *action, size_t bytes, uint64_t type, uint64_t flags) {
  (void)pop;
  oid object = oid_of(__crashproof_new_object(bytes, type, flags));
  action->kind = HEAP;
  action->heap.offset = object.off;
  action->heap.usable_size = bytes;
  return object;
}
MODEL oid pmemobj_reserve(pool *pop, struct action *action, size_t bytes, uint64_t type) {
  return pmemobj_xreserve(pop, action, bytes, type, 0);
}
MODEL void pmemobj_set_value(pool *pop, struct action *action, uint64_t *place, uint64_t value) {
  (void)pop;
  action->kind = MEMORY;
  action->set.place = place;
  action->set.value = value;
}
MODEL void pmemobj_defer_free(pool *pop, oid object, struct action *action) {
  (void)pop;
  action->kind = HEAP;
  action->heap.offset = object.off;
}
MODEL int pmemobj_publish(pool *pop, struct action *actions, size_t count) {
  (void)pop;
  long number = __crashproof_together_begin();
  for (size_t i = 0; i < count; i++)
    if (actions[i].kind == MEMORY)
      __crashproof_together_set(number, actions[i].set.place, actions[i].set.value);
  __crashproof_together_end(number);
  return 0;
}
MODEL void pmemobj_cancel(pool *pop, struct action *actions, size_t count) { (void)pop, (void)actions, (void)count; }
