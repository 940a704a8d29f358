// Epochs of twenty lines, flushed at their end: 2^20 crash states each. Recovery fails in one corner: corners CORNER N
//   kept    every line of the epoch survives
//   lost    every line is lost
//   alone-lost, alone-kept   exactly the seventh line is lost, or survives
//   middle  exactly the first ten survive
#include "search.h"

enum { LINES = 20, EPOCHS = 64 };

PERSISTENT static struct {
  uint64_t word[8];
} __attribute__((aligned(64))) lines[EPOCHS][LINES], done;

static const char *corner;
static long epoch_of_bug;

static void recover(long n) {
  (void)n;
  uint64_t at = done.word[0];
  if (at == 0 || at > EPOCHS)
    return;
  uint32_t kept = 0;
  for (int i = 0; i < LINES; i++)
    kept |= (uint32_t)(lines[at - 1][i].word[0] != 0) << i;
  if ((long)at != epoch_of_bug)
    return;
  const uint32_t all = (1u << LINES) - 1, one = 1u << 7;
  uint32_t bad = !strcmp(corner, "kept")         ? all
                 : !strcmp(corner, "lost")       ? 0
                 : !strcmp(corner, "alone-lost") ? all & ~one
                 : !strcmp(corner, "alone-kept") ? one
                                                 : (1u << LINES / 2) - 1;
  crashproof_assert(kept != bad);
}

int main(int argc, char **argv) {
  (void)argc;
  corner = argv[1];
  long n = atol(argv[2]);
  epoch_of_bug = n / 2 + 1;
  if (crashproof_crashes() > 0) {
    recover(n);
    return 0;
  }
  begin_work(n);
  for (long e = 0; e < n; e++) {
    done.word[0] = e + 1; // this epoch is written; before its flush all of it may be lost
    crashproof_persist(&done, sizeof done);
    for (int i = 0; i < LINES; i++)
      lines[e][i].word[0] = e + 1;
    for (int i = 0; i < LINES; i++)
      crashproof_flush(&lines[e][i], 64);
    crashproof_drain();
    operation_done(e);
  }
  end_work();
  return 0;
}
