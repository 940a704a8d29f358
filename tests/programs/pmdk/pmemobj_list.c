// A list is what it was before an operation, or what it is after it.
//@ check: skip (it needs libpmemobj itself)
//@ lint: flush-unmodified at flush-unmodified
//@ prove: proved
#include "pmemobj.h"
struct entry {
  PMEMoid next, prev;
};
struct element {
  struct entry entry;
  char apart[64];
  long value;
};
struct head {
  PMEMoid first;
  char lock[64];
};
struct root {
  struct head one, two;
};
PMEMoid pmemobj_list_insert_new(PMEMobjpool *, size_t, void *, PMEMoid, int, size_t, unsigned long, constructor *, void *);
int pmemobj_list_remove(PMEMobjpool *, size_t, void *, PMEMoid, int);
int pmemobj_list_move(PMEMobjpool *, size_t, void *, size_t, void *, PMEMoid, int, PMEMoid);
static const PMEMoid null;
enum { ENTRY = offsetof(struct element, entry) };

static int make(PMEMobjpool *pool, void *object, void *argument) {
  struct element *element = object;
  element->value = *(long *)argument;
  pmemobj_persist(pool, element, sizeof *element); // MARK: flush-unmodified
  return 0;
}
static int length(struct head *head) {
  int count = 0;
  PMEMoid at = head->first;
  while (at.off) {
    struct element *element = pmemobj_direct(at);
    struct element *next = pmemobj_direct(element->entry.next);
    crashproof_assert(next->entry.prev.off == at.off);
    crashproof_assert(element->value == 1 || element->value == 2);
    count++;
    at = element->entry.next.off == head->first.off ? null : element->entry.next;
  }
  return count;
}
int main(void) {
  struct root *root = begin(sizeof *root);
  long value = 1;
  PMEMoid first = pmemobj_list_insert_new(pool, ENTRY, &root->one, null, 1, sizeof(struct element), 3, make, &value);
  value = 2;
  pmemobj_list_insert_new(pool, ENTRY, &root->one, null, 0, sizeof(struct element), 3, make, &value);
  crashproof_assert(pmemobj_type_num(first) == 3);
  crashproof_assert(length(&root->one) == 2);
  pmemobj_list_move(pool, ENTRY, &root->one, ENTRY, &root->two, null, 1, first);
  pmemobj_list_remove(pool, ENTRY, &root->two, first, 1);
  crashproof_assert(length(&root->one) == 1 && length(&root->two) == 0);
  return 0;
}
void recover(void) {
  struct root *root = find(sizeof *root);
  if (root)
    crashproof_assert(length(&root->one) + length(&root->two) <= 2);
}
