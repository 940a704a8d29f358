#include <crashproof.h>
#include <stdint.h>
#define PSTORE(lhs, rhs) do { (lhs) = (rhs); } while (0)
#define PBARRIER(p) do { __builtin_ia32_clflush(p); __asm__ volatile("sfence" ::: "memory"); } while (0)
struct node { _Alignas(64) uint64_t key; uint64_t val; };
struct list { _Alignas(64) struct node nodes[4]; _Alignas(64) uint64_t count; };
static void add(struct list *l, uint64_t key, uint64_t val) {
  struct node *n = &l->nodes[l->count];
  PSTORE(n->key, key);
  PSTORE(n->val, val);
  PSTORE(l->count, l->count + 1);
  PBARRIER(&l->count);
}
int main(void) {
  struct list *l = crashproof_root(sizeof *l);
  if (crashproof_crashes()) {
    for (uint64_t i = 0; i < l->count; i++) crashproof_assert(l->nodes[i].val == 10 * l->nodes[i].key && l->nodes[i].key);
    return 0;
  }
  add(l, 1, 10);
  add(l, 2, 20);
  return 0;
}
