// Two epochs. Compiled with -DBARRIER there is a fence between them.
//@ lint: missing-barrier at missing-barrier
//@ lint: missing-barrier at missing-barrier-2
//@ prove: unknown (calls `crashproof_epoch_begin`, which is not defined here)
//@ variant epoch:
//@ flags check: --model epoch
//@ check: missing-barrier-between-epochs at SECOND
//@ variant barrier: -DBARRIER
//@ flags check: --model epoch
//@ check: clean
//@ variant strand:
//@ flags check: --model strand
//@ flags lint: --model strand
//@ check: unknown (no strand is marked)
#include <crashproof.h>

static PERSISTENT long record[16];
static PERSISTENT long valid;

int main(void) {
  crashproof_epoch_begin();
  for (int i = 0; i < 16; i++)
    record[i] = i; // MARK: RECORD
  crashproof_flush(record, sizeof record); // MARK: missing-barrier
  crashproof_epoch_end();
#ifdef BARRIER
  crashproof_drain();
#endif
  crashproof_epoch_begin(); // MARK: SECOND
  valid = 1;
  crashproof_flush(&valid, sizeof valid); // MARK: missing-barrier-2
  crashproof_epoch_end();
  crashproof_drain();
  return 0;
}
