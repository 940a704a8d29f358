// Assembly that accesses memory runs between two calls.
#include "test.h"

static long in_dram;

__attribute__((noinline)) static long xadd(long *p, long v) {
  __asm__ volatile("lock; xaddq %0,%1" : "+r"(v), "+m"(*p)::"memory", "cc");
  return v;
}

__attribute__((noinline)) static unsigned char cas(long *p, long old, long new) {
  unsigned char done;
  __asm__ volatile("lock; cmpxchgq %3,%1; sete %0" : "=q"(done), "+m"(*p), "+a"(old) : "r"(new) : "memory", "cc");
  return done;
}

__attribute__((noinline)) static void stores(char *p, long v) {
  __asm__ volatile("movnti %0,(%1)" ::"r"(v), "r"(p) : "memory");
  __asm__ volatile("movntil %1,%0" : "=m"(*(int *)(p + 8)) : "r"((int)v));
  __asm__ volatile("xchgl %0,%1" : "+r"(*(int *)&v), "+m"(*(int *)(p + 16))::"memory");
  __asm__ volatile("movb $7,%0" : "=m"(p[24]));
  __asm__ volatile("movq %1,8(%0,%2,8); sfence" ::"r"(p), "r"(v), "r"(3l) : "memory");
  __asm__ volatile("incl %0" : "+m"(*(int *)(p + 32))::"cc");
}

__attribute__((noinline)) static long load(long *p) {
  long v;
  __asm__ volatile("movq %1,%0" : "=r"(v) : "m"(*p));
  return v;
}

int main(void) {
  char *p = test_pm();
  CHECK(xadd((long *)p, 5) == 0);
  CHECK(cas((long *)p, 5, 6));
  CHECK(!cas((long *)p, 5, 6));
  stores(p + 64, 9);
  CHECK(load((long *)(p + 64)) == 9);
  test_say("volatile memory:");
  CHECK(xadd(&in_dram, 1) == 0);
  return (int)load(&in_dram) - 1;
}
