// A log of records of different lengths: a record is complete before `tail` covers it, and `head` moves only when
// what it gives up has been applied.
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at recovery-fails
//@ prove: refuted at claim-violated
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails at recovery-fails-2
//@ lint: unflushed-write at recovery-fails-2
//@ prove: refuted at claim-violated-2
//@ variant bug-3: -DBUG=3
//@ check: recovery-fails at recovery-fails-3
//@ lint: unflushed-write at recovery-fails-3
//@ prove: refuted at claim-violated-3

#include <crashproof.h>
#include <string.h>

struct record {
  long length;
  char data[56];
};
struct log {
  long tail __attribute__((aligned(64)));
  long head __attribute__((aligned(64)));
  long applied __attribute__((aligned(64)));
  struct record record[8];
};

static void append(struct log *log, const char *text) {
  struct record *record = &log->record[log->tail];
  memcpy(record->data, text, strlen(text) + 1); // MARK: unflushed-write
  record->length = (long)strlen(text); // MARK: recovery-fails
#if BUG != 1
  crashproof_persist(record, sizeof *record);
#endif
  log->tail++; // MARK: recovery-fails-2
#if BUG != 2
  crashproof_persist(&log->tail, sizeof log->tail);
#endif
}

static void apply(struct log *log) {
  while (log->head < log->tail) {
    log->applied += log->record[log->head].length; // MARK: recovery-fails-3
#if BUG != 3
    crashproof_persist(&log->applied, sizeof log->applied);
#endif
    log->head += 1;
    crashproof_persist(&log->head, sizeof log->head);
  }
}

int main(void) {
  struct log *log = crashproof_root(sizeof *log);
  crashproof_assert(log->head <= log->tail); // MARK: claim-violated-2
  long sum = 0;
  for (long i = 0; i < log->tail; i++) {
    crashproof_assert(log->record[i].length == (long)strlen(log->record[i].data)); // MARK: claim-violated
    if (i < log->head)
      sum += log->record[i].length;
  }
  crashproof_assert(log->applied >= sum); // MARK: claim-violated-3
  if (crashproof_crashes())
    return 0;
  append(log, "first");
  append(log, "second one");
  apply(log);
  return 0;
}
