// Flushes and fences as PM libraries write them in assembly.
#include "test.h"

#define FLUSHOPT(p) __asm__ volatile(".byte 0x66; clflush %0" : "+m"(*(volatile char *)(p)))
#define CLWB(p) __asm__ volatile(".byte 0x66; xsaveopt %0" : "+m"(*(volatile char *)(p)))

__attribute__((noinline)) static void all(char *p) {
  __asm__ volatile("clflush %0" : "+m"(*(volatile char *)p));
  FLUSHOPT(p + 64);
  CLWB(p + 128);
  __asm__ volatile("clflush (%0)" ::"r"(p + 192));
  __asm__ volatile("clwb 64(%%rax)" ::"a"(p + 192) : "memory");
  __asm__ volatile("clflushopt (%0)\n\tsfence" ::"r"(p) : "memory");
  __asm__ volatile("mfence; clflush %0; mfence" : "+m"(*p)::"memory");
  __asm__ volatile("{clwb (%0)|clwb [%0]}" ::"r"(p));
  __asm__ volatile("sfence" ::: "memory");
  __asm__ volatile("mfence" ::: "memory");
  __asm__ volatile("lock; addl $0,0(%%rsp)" ::: "memory", "cc");
  __asm__ volatile("" ::: "memory"); // for the compiler only
  __asm__ volatile("pause");
  __asm__ volatile("rep; nop");
}

int main(void) {
  all(test_pm());
  return 0;
}
