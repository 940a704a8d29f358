// Stores, flushes and fences in assembly.
#include "pool.h"
struct s { long a; char pad[56]; long b; };
static void put(long *to, long value) {
  __asm__ volatile("movq %1, (%0)" ::"r"(to), "r"(value) : "memory"); // MARK
}
int main(void) {
  struct s *s = pool(4096);
  long b = s->b;
  assert(b == 0 || s->a == 41 + b);
  put(&s->a, 42);
  CORRECT(__asm__ volatile("clflushopt (%0)\n\tsfence" ::"r"(&s->a) : "memory"));
  __asm__ volatile("movq $1, (%0)\n\tclflushopt (%0)\n\tsfence" ::"r"(&s->b) : "memory");
}
