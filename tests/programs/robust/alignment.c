// FAST_FAIR's header (PSan, Table 2, number 9): the fields were meant to share a cache line, so that one flush
// keeps their order. Padding that nobody thought of pushes one of them over the border.
//@ lint: clean, no warnings
//@ prove: vacuous
//@ variant plain:
//@ check: missing-flush at SEQUENCE, survived READY, window SEQUENCE..READY, primary
//@ robust: refuted at SEQUENCE
//@ variant packed: -DPACKED
//@ check: clean
//@ robust: proved

#include <crashproof.h>

struct header {
  void *leftmost, *sibling;
#ifdef PACKED
  int level;
  short last;
  char deleted, leaf;
#else
  char deleted; /* three bytes of padding after it */
  int level;
  char leaf; /* one */
  short last; /* four */
#endif
  long counter[3];
  long sequence; /* meant to end the line together with ready */
  long ready;
};

int main(void) {
  struct header *header = crashproof_root(sizeof *header);
  if (!crashproof_crashes()) {
    header->sequence = 1; // MARK: SEQUENCE
    header->ready = 1; // MARK: READY
    crashproof_persist(header, sizeof *header); // MARK: FLUSH
    return 0;
  }
  volatile long sequence = header->sequence;
  volatile long ready = header->ready;
  (void)sequence, (void)ready;
  return 0;
}
