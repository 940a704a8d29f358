//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk-cpp.h"
#include <thread>
using namespace pmem::obj;

struct root {
  p<long> count;
};

void count(pool &pop) {
  std::thread other([&pop] {
    auto r = pop.root<root>();
    r->count = 1;
    pop.persist(r->count);
  });
  other.join();
}
