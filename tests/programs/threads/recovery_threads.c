// Recovery that creates threads itself, and looks at persistent memory from several.
//@ variant fixed: -DFIXED
//@ prove: proved
//@ flags check: --schedules 5
//@ check: clean
//@ lint: clean, no warnings
//@ variant plain:
//@ prove: refuted (sums[i] == 3)
//@ flags check: --schedules 5
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails (known wrong: memory handed to a thread is not followed)

#include <crashproof.h>
#include <pthread.h>

#define PARTS 3
struct part {
  long data[3];
};
struct root {
  long done;
  char apart[64 - sizeof(long)];
  struct part parts[PARTS];
};
static struct root *root;
static long sums[PARTS];

static void *sum(void *argument) {
  long part = (long)argument;
  for (int i = 0; i < 3; i++) sums[part] += root->parts[part].data[i];
  return 0;
}

static void *fill(void *argument) {
  long part = (long)argument;
  for (int i = 0; i < 3; i++) root->parts[part].data[i] = 1; // MARK: recovery-fails
#ifdef FIXED
  crashproof_persist(&root->parts[part], sizeof(struct part));
#endif
  return 0;
}

static void all(void *(*function)(void *)) {
  pthread_t threads[PARTS];
  for (long i = 0; i < PARTS; i++) pthread_create(&threads[i], 0, function, (void *)i);
  for (long i = 0; i < PARTS; i++) pthread_join(threads[i], 0);
}

int main(void) {
  root = crashproof_root(sizeof *root);
  if (crashproof_crashes()) {
    if (!root->done) return 0;
    all(sum);
    for (int i = 0; i < PARTS; i++) crashproof_assert(sums[i] == 3);
    return 0;
  }
  all(fill);
  root->done = 1;
  crashproof_persist(&root->done, sizeof root->done);
  return 0;
}
