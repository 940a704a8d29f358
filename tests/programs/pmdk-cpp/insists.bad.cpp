// The same without insisting.
//@ check: skip (it needs libpmemobj itself)
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include "pmdk-cpp.h"
using namespace pmem::obj;

struct entry {
  p<long> key;
  entry() : key(1) {} // MARK: unflushed-write
};

static void make(pool &pop) { new (pop.root<entry>().get()) entry(); }

int main() {
  pool pop(nullptr);
  make(pop);
}
