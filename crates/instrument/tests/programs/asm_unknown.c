// What may lock volatile memory is named while building, and told to the runtime when it runs; the rest is followed there.
#include "test.h"

__asm__(".globl helper\nhelper: ret");
void helper(void);

__attribute__((naked)) void bare(void) { __asm__("ret"); }

__attribute__((noinline)) static void all(char *p, char *q) {
  unsigned long n = 8;
  void *to = p;
  const void *from = q;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
  __asm__ volatile(".byte 0x0f, 0x1f, 0x00"); // a nop, but who knows
  __asm__ volatile("movq (%%rbx),%%rax" ::"r"(p), "b"(p) : "rax"); // this one is understood
  __asm__ volatile("mov %0,%%r8; movq (%%r8),%%rax" ::"r"(p) : "rax", "r8", "memory");
  __asm__ goto("jmp %l0" ::: "memory" : out);
out:
  __asm__ goto("lock; decl %0; jz %l1" : : "m"(*(int *)q) : "memory" : end);
end:
  return;
}

int main(void) {
  static char in_dram[16];
  helper();
  bare();
  all(test_pm(), in_dram);
  return 0;
}
