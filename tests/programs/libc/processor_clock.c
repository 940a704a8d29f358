// The processor's clock and random numbers, by intrinsics and by assembly, are the same in every run.
//@ lint: clean, no warnings
//@ prove: unknown (intrinsic `llvm.x86.rdrand.64` at :0 is not modeled)
//@ variant plain:
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ variant o2: -O2
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
#include <crashproof.h>
#include <stdint.h>
#include <x86intrin.h>

enum { VALUES = 9 };

struct root {
  uint64_t values[VALUES];
  long done;
};

__attribute__((target("rdrnd,rdseed"))) static void numbers(uint64_t *values) {
  unsigned long long number = 0, seed = 0;
  unsigned char there;
  crashproof_assert(_rdrand64_step(&number) == 1 && _rdseed64_step(&seed) == 1);
  values[0] = number;
  values[1] = seed;
  __asm__ volatile("rdrand %0; setc %1" : "=r"(number), "=q"(there));
  crashproof_assert(there);
  values[2] = number;
}

static void clocks(uint64_t *values) {
  unsigned processor, low, high;
  uint64_t before = __rdtsc();
  values[0] = before;
  values[1] = __rdtscp(&processor);
  values[2] = __builtin_readcyclecounter();
  __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high));
  values[3] = (uint64_t)high << 32 | low;
  __asm__ volatile("rdtsc; shlq $32, %%rdx; orq %%rdx, %0" : "=a"(values[4]) : : "rdx");
  __asm__ volatile("cpuid; rdtsc; mov %%edx, %0; mov %%eax, %1"
                   : "=r"(high), "=r"(low)
                   :
                   : "rax", "rbx", "rcx", "rdx");
  values[5] = (uint64_t)high << 32 | low;
  // Time passes, or programs that wait for it would wait forever.
  for (int i = 1; i < 6; i++)
    crashproof_assert(values[i] > values[i - 1]);
  while (__rdtsc() - before < 1000000)
    ;
}

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  uint64_t values[VALUES];
  numbers(values);
  clocks(values + 3);
  if (r->done) {
    for (int i = 0; i < VALUES; i++)
      crashproof_assert(r->values[i] == values[i]);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
  for (int i = 0; i < VALUES; i++)
    r->values[i] = values[i];
  crashproof_persist(r->values, sizeof r->values);
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
