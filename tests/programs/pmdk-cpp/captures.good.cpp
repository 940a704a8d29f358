// As the other, all logged; and a function that is only called inside of transactions does not know that.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk-cpp.h"
using namespace pmem::obj;

struct entry {
  p<long> key, value;
  p<long> version;

  void set(long k, long v) {
    key = k;
    value = v;
  }
  void put(pool &pop, long k, long v, long n) {
    transaction::run(pop, [&] {
      set(k, v);
      version = n;
    });
  }
};

void put(pool &pop, persistent_ptr<entry> at) { at->put(pop, 1, 2, 3); }
