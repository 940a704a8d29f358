// A journal of records of two lines, flushed line by line as programs for older machines do it; the count commits.
// Recovery looks at the last record.
#include <crashproof.h>
#include <emmintrin.h>
#include <stdlib.h>

struct record {
  long value[16];
} __attribute__((aligned(64)));

struct journal {
  volatile long count;
  struct record *records;
};

static void write_back(const void *start, unsigned long bytes) {
  for (unsigned long at = 0; at < bytes; at += 64)
    _mm_clflush((const char *)start + at);
}

int main(int argc, char **argv) {
  struct journal *journal = crashproof_root(sizeof *journal);
  if (crashproof_crashes()) {
    long count = journal->count;
    if (count)
      for (int i = 0; i < 16; i++)
        crashproof_assert(journal->records[count - 1].value[i] == count + i);
    return 0;
  }
  long count = argc > 1 ? atol(argv[1]) : 100;
  journal->records = crashproof_alloc(count * sizeof(struct record));
  write_back(&journal->records, sizeof journal->records);
  for (long i = 0; i < count; i++) {
    for (int word = 0; word < 16; word++)
      journal->records[i].value[word] = i + 1 + word;
    write_back(&journal->records[i], sizeof journal->records[i]);
    journal->count = i + 1;
    write_back((const void *)&journal->count, sizeof journal->count);
  }
  return 0;
}
