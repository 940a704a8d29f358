// Byte-wise scanning and counting, as in a parser.
#include "bench.h"

enum { N = 4 << 20 };
static char *text;
static unsigned *counts;

static void prepare(void) {
  text = malloc(N + 1);
  counts = malloc(256 * sizeof *counts);
  for (int i = 0; i < N; i++) text[i] = next_random() % 6 ? (char)('a' + next_random() % 26) : ' ';
  text[N] = 0;
}

static uint64_t run(void) {
  memset(counts, 0, 256 * sizeof *counts);
  uint64_t words = 0, hash = 0;
  for (const char *p = text; *p;) {
    while (*p == ' ') p++;
    const char *begin = p;
    while (*p && *p != ' ') hash = hash * 31 + (unsigned char)*p++;
    if (p != begin) words++, counts[hash & 255]++;
  }
  return words + counts[7];
}
