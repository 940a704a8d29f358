// What a thread does is called by nobody here, and is looked at all the same.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
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
    r->count = 1; // MARK: unflushed-write
  });
  other.join();
}
