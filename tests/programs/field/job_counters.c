// Counters of a job runner: what an assertion claims ties them to each other, and nothing else does.
//@ args: {dir}/stats
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant fence: -DBUG=3
//@ check: recovery-fails at started
//@ lint: publish-before-persist at started
//@ prove: refuted at claim
#include <assert.h>
#include <fcntl.h>
#include <libpmem.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
struct stats { uint64_t submitted; char p0[56]; uint64_t started; char p1[56]; uint64_t finished; char p2[56]; };
static struct stats *st;
#define BUMP(f) (st->f++)
#define SYNC(f) pmem_persist(&st->f, sizeof st->f)
static void submit(void) {
  BUMP(submitted);
#if BUG != 1
  SYNC(submitted);
#endif
}
static void start(void) {
  BUMP(started); // MARK: started
#if BUG == 3
  pmem_flush(&st->started, sizeof st->started);
#elif BUG != 2
  SYNC(started);
#endif
}
static void finish(void) {
  BUMP(finished);
  SYNC(finished);
}
int main(int argc, char **argv) {
  size_t n; int pm;
  if (argc < 2) exit(2);
  st = pmem_map_file(argv[1], sizeof *st, PMEM_FILE_CREATE, 0666, &n, &pm);
  if (st == NULL) exit(1);
  assert(st->started <= st->submitted);
  assert(st->finished <= st->started); // MARK: claim
  for (int i = 0; i < 2; i++) { submit(); start(); finish(); }
  return 0;
}
