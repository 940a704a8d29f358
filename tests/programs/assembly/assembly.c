// Flushes and fences as persistent-memory code writes them.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ lint: missing-barrier at missing-barrier
//@ prove: proved
#include <crashproof.h>
PERSISTENT long a __attribute__((aligned(64)));
PERSISTENT long b __attribute__((aligned(64)));
PERSISTENT long c __attribute__((aligned(64)));
PERSISTENT long d __attribute__((aligned(64)));
int main(void) {
  a = 1;
  __asm__ volatile(".byte 0x66; clflush %0" : "+m"(*(volatile char *)&a));
  __asm__ volatile("sfence" ::: "memory");
  b = 1;
  __asm__ volatile(".byte 0x66; xsaveopt %0" : "+m"(*(volatile char *)&b));
  __asm__ volatile("lock; addl $0,0(%%rsp)" ::: "memory", "cc");
  c = 1;
  __asm__ volatile("clflush (%0)" ::"r"(&c) : "memory"); // MARK: missing-barrier
  d = 1; // MARK: unflushed-write
  return 0;
}
void recover(void) {
  if (b)
    crashproof_assert(a);
  if (c)
    crashproof_assert(b);
  if (d)
    crashproof_assert(c);
}
