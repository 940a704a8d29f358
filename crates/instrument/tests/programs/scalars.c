// Loads and stores of every scalar type, odd ones included.
#include "test.h"

struct pair { long a; int b; };

__attribute__((noinline)) static void all(char *p) {
  *(_Bool *)(p + 0) = 1;
  *(char *)(p + 1) = -2;
  *(short *)(p + 2) = 3;
  *(int *)(p + 4) = 4;
  *(long *)(p + 8) = 5;
  *(float *)(p + 16) = 1.5f;
  *(double *)(p + 24) = 2.5;
  *(long double *)(p + 32) = 3.5L;
  *(__int128 *)(p + 48) = 6;
  *(void **)(p + 64) = p;
  *(_BitInt(24) *)(p + 72) = 7;
  *(_BitInt(3) *)(p + 80) = 1;
  *(_Float16 *)(p + 82) = 1.0f16;
}

__attribute__((noinline)) static int verify(char *p) {
  CHECK(*(_Bool *)(p + 0) == 1);
  CHECK(*(signed char *)(p + 1) == -2);
  CHECK(*(short *)(p + 2) == 3);
  CHECK(*(int *)(p + 4) == 4);
  CHECK(*(long *)(p + 8) == 5);
  CHECK(*(float *)(p + 16) == 1.5f);
  CHECK(*(double *)(p + 24) == 2.5);
  CHECK(*(long double *)(p + 32) == 3.5L);
  CHECK(*(__int128 *)(p + 48) == 6);
  CHECK(*(void **)(p + 64) == p);
  CHECK(*(_BitInt(24) *)(p + 72) == 7);
  CHECK(*(_BitInt(3) *)(p + 80) == 1);
  CHECK(*(_Float16 *)(p + 82) == 1.0f16);
  return 0;
}

int main(void) {
  char on_stack[96];
  all(test_pm());
  verify(test_pm());
  all(on_stack);
  return verify(on_stack);
}
