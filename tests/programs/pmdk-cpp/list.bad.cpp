// A list: one member is no variable that logs itself, and one is assigned outside of a transaction.
//@ check: skip (a fragment: it has no main)
//@ lint: unlogged-write at unlogged-write
//@ lint: unflushed-write at unflushed-write
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
  long last;
};

void push(pool &pop, int value) {
  auto r = pop.root<root>();
  transaction::run(pop, [&] {
    auto n = make_persistent<node>();
    n->value = value;
    n->next = r->head;
    r->head = n;
    r->count = r->count + 1;
    r->last = value; // MARK: unlogged-write
  });
}

void reset(pool &pop) {
  auto r = pop.root<root>();
  r->count = 0; // MARK: unflushed-write
}
