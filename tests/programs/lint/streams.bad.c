// Non-temporal stores need no flush but a fence.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier at missing-barrier
//@ lint: redundant-flush at redundant-flush
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
PERSISTENT long long log_area[64];
PERSISTENT long long log_tail;
void append(const long long *words) {
  for (int i = 0; i < 8; i++)
    _mm_stream_si64(&log_area[i], words[i]); // MARK: missing-barrier
}
void append_and_flush(long long word) {
  log_tail = word;
  persist(&log_tail, sizeof log_tail);
  persist(&log_tail, sizeof log_tail); // MARK: redundant-flush
}
