// Stores past the cache are waited for; what is written back twice was stored to in between.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"
PERSISTENT long long log_area[64];
PERSISTENT long long log_tail;
void append(const long long *words) {
  for (int i = 0; i < 8; i++)
    _mm_stream_si64(&log_area[i], words[i]);
  _mm_sfence();
}
void append_and_flush(long long word) {
  log_tail = word;
  persist(&log_tail, sizeof log_tail);
  log_tail = word + 1;
  persist(&log_tail, sizeof log_tail);
}
