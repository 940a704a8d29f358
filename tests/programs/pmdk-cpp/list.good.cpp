// The same list, logged by its variables, or persisted.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk-cpp.h"
using namespace pmem::obj;

struct node {
  p<int> value;
  persistent_ptr<node> next;
};
struct root {
  persistent_ptr<node> head;
  p<long> count;
  char apart[64];
  p<long> last;
};

void push(pool &pop, int value) {
  auto r = pop.root<root>();
  transaction::run(pop, [&] {
    auto n = make_persistent<node>();
    n->value = value;
    n->next = r->head;
    r->head = n;
    r->count = r->count + 1;
    r->last = value;
  });
}

void reset(pool &pop) {
  auto r = pop.root<root>();
  r->count = 0;
  pop.persist(r->count);
}
