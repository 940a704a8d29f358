// Methods, virtual calls, templates, and names a person can read.
#include "test.h"
#include <new>

namespace shapes {
struct base {
  virtual ~base() {}
  virtual int area() const = 0;
};
template <int N> struct square : base {
  int side;
  explicit square(int s) : side(s) {}
  __attribute__((noinline)) int area() const override { return side * side * N; }
};
} // namespace shapes

__attribute__((noinline)) static shapes::base *make(void *p) { return new (p) shapes::square<2>(3); }

int main() {
  shapes::base *s = make(test_pm());
  return s->area() - 18;
}
