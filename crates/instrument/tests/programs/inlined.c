// Sites know the calls they were inlined into.
// environment: TEST_INLINED=1
#include "test.h"

static inline __attribute__((always_inline)) void innermost(long *p) {
  *p = 1;
}

static inline __attribute__((always_inline)) void middle(long *p) {
  innermost(p);
  innermost(p + 1);
}

__attribute__((noinline)) static void outer(long *p) {
  middle(p);
}

int main(void) {
  outer(PM(long, 0));
  return 0;
}
