// A local static of C++ is made once, by whoever comes first; its guard is given back inside the C++ library, which was not
// rebuilt, and orders what was stored before.
//@ lint: skip (about schedules)
//@ prove: skip (about schedules)
//@ variant right: -std=c++17
//@ check: clean, no warnings
//@ variant own: -std=c++17 -DOWN
//@ check: fails-under-schedule
//@ check: recovery-fails
#include <crashproof.h>

#include <atomic>
#include <thread>

struct alignas(64) Line {
  long value;
};
PERSISTENT Line made;
PERSISTENT Line used[2];
static std::atomic<bool> begun;

static void store(Line &line, long value) {
  line.value = value;
  crashproof_persist(&line, sizeof line);
}

struct Table {
  Table() { store(made, made.value + 1); }
};

static void use(int number) {
#ifdef OWN
  if (!begun.load()) {
    begun = true;
    Table table;
  }
#else
  static Table table;
#endif
  crashproof_assert(made.value == 1);
  store(used[number], 1);
}

int main() {
  if (crashproof_crashes()) {
    if (used[0].value || used[1].value) crashproof_assert(made.value == 1);
    return 0;
  }
  std::thread one(use, 0), two(use, 1);
  one.join();
  two.join();
  return 0;
}
