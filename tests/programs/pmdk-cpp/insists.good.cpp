// What insists on a transaction does not come back without one, so nothing is stored here.
//@ check: skip (it needs libpmemobj itself)
//@ lint: clean, no warnings
//@ prove: unknown (calls `__cxa_allocate_exception`, which is not defined here)
#include "pmdk-cpp.h"
using namespace pmem::obj;

struct entry {
  p<long> key;
  entry() : key(1) {}
};

static void make() { (void)make_persistent<entry>(); }

int main() {
  try {
    make();
  } catch (const std::logic_error &) {
    return 1;
  }
}
