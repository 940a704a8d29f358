// Variadic functions: values and structures from PM among the arguments.
#include "test.h"
#include <stdarg.h>

struct big { long a[5]; };

__attribute__((noinline)) static long sum(int n, ...) {
  va_list ap;
  long s = 0;
  va_start(ap, n);
  for (int i = 0; i < n; i++) s += va_arg(ap, long);
  s += va_arg(ap, struct big).a[4];
  va_end(ap);
  return s;
}

__attribute__((noinline)) static long call(struct big *p) { return sum(2, p->a[0], p->a[1], *p); }

int main(void) {
  struct big *p = PM(struct big, 0);
  p->a[0] = 1;
  p->a[1] = 2;
  p->a[4] = 3;
  CHECK(call(p) == 6);
  return 0;
}
