// Epochs of eleven lines, flushed at their end: more states than are tried at each crash point. Recovery reads stale lines
// after all of them, and fails only if exactly one line of the twentieth is lost: a corner.
//@ check: recovery-fails at store
//@ lint: skip (about the search)
//@ prove: skip (about the search)
#include <crashproof.h>
#include <string.h>

enum { LINES = 11, EPOCHS = 24, FAILS = 20, ALONE = 7 };

PERSISTENT static struct {
  unsigned long word[8];
} __attribute__((aligned(64))) lines[EPOCHS][LINES], begun;

int main(void) {
  if (crashproof_crashes()) {
    unsigned long at = begun.word[0], kept = 0;
    if (at == 0 || at > EPOCHS)
      return 0;
    for (int i = 0; i < LINES; i++)
      kept |= (unsigned long)(lines[at - 1][i].word[0] != 0) << i;
    crashproof_assert(at != FAILS || kept != (((1ul << LINES) - 1) & ~(1ul << ALONE)));
    return 0;
  }
  for (int e = 0; e < EPOCHS; e++) {
    begun.word[0] = e + 1;
    crashproof_persist(&begun, sizeof begun);
    for (int i = 0; i < LINES; i++)
      lines[e][i].word[0] = e + 1; // MARK: store
    for (int i = 0; i < LINES; i++)
      crashproof_flush(&lines[e][i], 64);
    crashproof_drain();
  }
  return 0;
}
