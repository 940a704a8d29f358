// Persistent globals in C++: inline variables, template statics, members reached through references.
#include "test.h"

struct point { int x = 1, y = 2; };

inline PERSISTENT int shared = 3;
PERSISTENT point origin;

template <class T> struct holder { static T value; };
template <class T> PERSISTENT T holder<T>::value = T(9);

__attribute__((noinline)) static int &reference(point &p) { return p.y; }

int main() {
  shared++;
  reference(origin) = 5;
  CHECK(holder<long>::value == 9);
  return origin.x - 1;
}
