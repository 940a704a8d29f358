// Persistent globals: plain, initialized, local to a function, and pointers to them in initializers.
#include "test.h"

struct list { struct list *next, *previous; };

PERSISTENT int zero;
PERSISTENT long answer = 42;
static PERSISTENT struct list head = {&head, &head};
PERSISTENT struct { int pad; long *inside; } record = {7, &answer};
static int *const volatile_pointer = &zero;
static long *table[] = {0, &answer, 0};

extern PERSISTENT char later[10];

// Only ever written: the optimizer must not drop it.
static PERSISTENT int written_only;

__attribute__((noinline)) static int count(void) {
  static PERSISTENT int calls = 1;
  return calls++;
}

int main(void) {
  CHECK(((unsigned long)&zero >> 44) == 1);
  CHECK(volatile_pointer == &zero && table[1] == &answer && table[0] == 0);
  CHECK(head.next == &head && head.previous == &head);
  CHECK(*record.inside == 42);
  zero = 1;
  written_only = 5;
  CHECK(count() == 1 && count() == 2);
  later[3] = 'x';
  return later[4];
}

PERSISTENT char later[10];
