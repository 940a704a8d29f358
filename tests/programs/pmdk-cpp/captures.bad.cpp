// A method whose transaction captures so much that the function lives on the heap. One member is not logged.
//@ check: skip (a fragment: it has no main)
//@ lint: unlogged-write at unlogged-write
//@ prove: skip (a fragment: it has no main)
#include "pmdk-cpp.h"
using namespace pmem::obj;

struct entry {
  p<long> key, value;
  long version;

  void put(pool &pop, long k, long v, long n) {
    transaction::run(pop, [&] {
      key = k;
      value = v;
      version = n; // MARK: unlogged-write
    });
  }
};

void put(pool &pop, persistent_ptr<entry> at) { at->put(pop, 1, 2, 3); }
