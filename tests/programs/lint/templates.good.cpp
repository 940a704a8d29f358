// A template whose only setter writes back.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
template <class T> class persistent {
  T value;
public:
  void set(const T &v) { value = v; persist(&value, sizeof value); }
  const T &get() const { return value; }
};
struct Root { persistent<uint64_t> count; char gap[120]; persistent<uint64_t> epoch; };
PERSISTENT Root root;
void next() {
  root.count.set(root.count.get() + 1);
  root.epoch.set(root.epoch.get() + 1);
}
