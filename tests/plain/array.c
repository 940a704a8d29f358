// An array that grows by one.
#include "pool.h"
struct a { long n; char pad[56]; long v[64]; };
int main(void) {
  struct a *a = pool(4096);
  for (long i = 0; i < a->n; i++)
    assert(a->v[i] == i * i + 1);
  for (long i = a->n; i < 20; i++) {
    a->v[i] = i * i + 1; // MARK
    CORRECT(persist(&a->v[i], 8));
    a->n = i + 1;
    persist(&a->n, 8);
  }
}
