// C++: a persistent pointer class with a method that flushes; one setter does not use it.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
template <class T> class persistent {
  T value;
public:
  void set(const T &v) { value = v; persist(&value, sizeof value); }
  void set_later(const T &v) { value = v; } // MARK: unflushed-write
  const T &get() const { return value; }
};
struct Root { persistent<uint64_t> count; char gap[120]; persistent<uint64_t> epoch; };
PERSISTENT Root root;
void next() {
  root.count.set(root.count.get() + 1);
  root.epoch.set_later(root.epoch.get() + 1);
}
