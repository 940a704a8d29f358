// A log that is written as a stream: each line is flushed once it is full, and the length commits what was appended.
// Recovery looks at the last record.
#include <crashproof.h>
#include <stdlib.h>

#define LINES 4

struct line {
  long word[8];
} __attribute__((aligned(64)));

struct log {
  volatile long records;
  struct line *line;
};

int main(int argc, char **argv) {
  struct log *log = crashproof_root(sizeof *log);
  if (crashproof_crashes()) {
    long records = log->records;
    if (records)
      for (int i = 0; i < LINES; i++)
        for (int word = 0; word < 8; word++)
          crashproof_assert(log->line[(records - 1) * LINES + i].word[word] == records + word);
    return 0;
  }
  long count = argc > 1 ? atol(argv[1]) : 100;
  log->line = crashproof_alloc(count * LINES * sizeof(struct line));
  crashproof_persist(&log->line, sizeof log->line);
  for (long record = 0; record < count; record++) {
    for (int i = 0; i < LINES; i++) {
      struct line *line = &log->line[record * LINES + i];
      for (int word = 0; word < 8; word++)
        line->word[word] = record + 1 + word;
      crashproof_persist(line, sizeof *line);
    }
    log->records = record + 1;
    crashproof_persist((const void *)&log->records, sizeof log->records);
  }
  return 0;
}
