// On which processor a program runs is chance; it sees the same ones in every run, and itself on the first.
//@ check: clean
//@ figures: 41 crash points, 41 recoveries
//@ lint: unknown (PM passed to the unknown function `getcpu`: add its source, or describe it with --api)
//@ prove: unknown (calls `sched_getaffinity`, which is not defined here)
#include <crashproof.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

struct root {
  long values[4];
  long count;
};

static void ask(long *values) {
  cpu_set_t set;
  crashproof_assert(sched_getaffinity(0, sizeof set, &set) == 0);
  unsigned processor, node;
  crashproof_assert(getcpu(&processor, &node) == 0);
  // A set as small as the kernel takes it, as programs allocate them.
  unsigned long few = 0;
  crashproof_assert(sched_getaffinity(0, sizeof few, (cpu_set_t *)&few) == 0 || CPU_COUNT(&set) > 64);
  values[0] = CPU_COUNT(&set) ^ (long)few << 8;
  values[1] = sysconf(_SC_NPROCESSORS_ONLN) << 20 | get_nprocs();
  values[2] = sched_getcpu();
  values[3] = processor;
}

int main(void) {
  struct root *root = crashproof_root(sizeof *root);
  if (crashproof_crashes()) {
    long values[4];
    ask(values);
    for (int i = 0; root->count && i < 4; i++)
      crashproof_assert(values[i] == root->values[i]);
    return 0;
  }
  ask(root->values);
  crashproof_persist(root->values, sizeof root->values);
  for (long i = 1; i <= 40; i++) {
    root->count = i;
    crashproof_persist(&root->count, sizeof root->count);
  }
  return 0;
}
