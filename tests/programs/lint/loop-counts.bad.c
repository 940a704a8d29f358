// A loop that runs as often as the caller says is taken to run once or twice; that says nothing of how often it does.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier at missing-barrier
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

PERSISTENT static char block[4096];
PERSISTENT static uint64_t sequence;

static void stream(void *to, const void *from, size_t bytes) {
  for (size_t i = 0; i < bytes / 16; i++)
    _mm_stream_si128((__m128i *)to + i, _mm_loadu_si128((const __m128i *)from + i));
}

void write_block(const void *from, uint64_t number) {
  stream(block, from, sizeof block);
  _mm_sfence();
  _mm_stream_si64((long long *)&sequence, number); // MARK: missing-barrier
}
