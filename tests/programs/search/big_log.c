// A redo log of many lines that is written without a flush in between; a checksum tells recovery whether it is
// whole. One line may hold nine things, so all of them together more than can be counted on a day's run.
//@ lint: clean, no warnings
//@ variant bracket: -DBRACKET -DROUNDS=1 -DLINES=10
//@ check: clean
//@ prove: skip (too large to prove in a test)
//@ variant weak: -DBRACKET -DWEAK -DROUNDS=1 -DLINES=4
//@ check: fails at LOST
//@ prove: refuted at claim-violated
#include <crashproof.h>

#ifndef LINES
#define LINES 20
#endif
#define WORDS (LINES * 8)

struct store {
  unsigned long data[WORDS] __attribute__((aligned(64)));
  unsigned long log[WORDS] __attribute__((aligned(64)));
  unsigned long checksum __attribute__((aligned(64)));
};

static unsigned long checksum(volatile unsigned long *word) {
  unsigned long sum = 14695981039346656037ul;
#ifdef WEAK // forgets the last line
  for (int i = 0; i < WORDS - 8; i++)
#else
  for (int i = 0; i < WORDS; i++)
#endif
    sum = (sum ^ word[i]) * 1099511628211ul;
#ifdef WEAK
  for (int i = WORDS - 8; i < WORDS; i++)
    if (word[i] == ~0ul)
      return 0;
#endif
  return sum;
}

int main(void) {
  struct store *store = crashproof_root(sizeof *store);
  if (!crashproof_crashes()) {
    for (int round = 0; round < ROUNDS; round++) {
      for (int i = 0; i < WORDS; i++)
        ((volatile unsigned long *)store->log)[i] = round * 1000 + i + 1; // MARK: LOST
      store->checksum = checksum(store->log);
      crashproof_persist(store->log, sizeof store->log + sizeof store->checksum);
    }
    return 0;
  }
#ifdef BRACKET
  crashproof_checksum_begin();
#endif
  int whole = store->checksum == checksum(store->log);
#ifdef BRACKET
  crashproof_checksum_end(whole);
#endif
  if (whole) {
    for (int i = 0; i < WORDS; i++)
      store->data[i] = store->log[i];
    crashproof_persist(store->data, sizeof store->data);
    crashproof_assert(store->data[WORDS - 1] == store->data[0] + WORDS - 1); // MARK: claim-violated
  }
  return 0;
}
