// A list in an array.
#include "pool.h"
struct node { uint32_t next; uint32_t value; char pad[56]; };
struct pool { uint32_t head; uint32_t used; char pad[56]; struct node nodes[30]; };
int main(void) {
  struct pool *p = pool(4096);
  unsigned count = 0;
  for (uint32_t at = p->head; at; at = p->nodes[at].next, count++)
    assert(p->nodes[at].value == 100 + at);
  for (uint32_t i = count + 1; i < 6; i++) {
    p->nodes[i].value = 100 + i;
    p->nodes[i].next = p->head; // MARK
    CORRECT(persist(&p->nodes[i], sizeof(struct node)));
    p->head = i;
    persist(&p->head, 4);
  }
}
