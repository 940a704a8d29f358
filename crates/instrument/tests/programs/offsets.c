// Arrays that loops walk through, and offsets that lead from volatile memory to PM.
#include "test.h"

// The array decides for all its elements.
__attribute__((noinline)) static long sum(const long *at, long n) {
  long all = 0;
#pragma clang loop vectorize(disable) unroll(disable)
  for (long i = 0; i < n; i++) all += at[i];
  return all;
}

// Which of two objects a pointer walks through is known only when it runs.
__attribute__((noinline)) static void raise(long *one, long *other, int which) {
  long *at = which ? one : other, *end = at + 2;
#pragma clang loop vectorize(disable) unroll(disable)
  do ++*at;
  while (++at != end);
}

// A relative pointer, copied to volatile memory together with what it is relative to now.
struct relative { long distance; };

__attribute__((noinline)) static long follow(const struct relative *from) {
  return *(const long *)((const char *)from + from->distance);
}

int main(void) {
  static struct relative memory;
  // The optimizer must not know what it points to: it would rely on the rule that offsets stay within an object.
  struct relative *volatile hidden = &memory;
  struct relative *here = hidden;
  long volatile_memory[2] = {3, 4};
  long *pm = PM(long, 0);
  pm[0] = 1;
  pm[1] = 2;
  CHECK(sum(pm, 2) == 3 && sum(volatile_memory, 2) == 7);
  raise(pm, volatile_memory, 1);
  raise(pm, volatile_memory, 0);
  here->distance = (long)pm - (long)here;
  CHECK(follow(here) == 2 && volatile_memory[1] == 5);
  return 0;
}
