// Writes a record; another command, or the same program told to, looks at it after a crash.
//@ args: write
//@ prove: skip (another command recovers)
//@ variant other-arguments: -DGLOBAL
//@ flags check: --recover "{program} look"
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ variant other-arguments-good: -DGLOBAL -DGOOD
//@ flags check: --recover "{program} look"
//@ check: clean
//@ lint: clean, no warnings
#include <crashproof.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct record {
  long data __attribute__((aligned(64)));
  long done __attribute__((aligned(64)));
};

#ifdef GLOBAL
PERSISTENT struct record record;
#endif

static struct record *place(const char *path) {
#ifdef GLOBAL
  (void)path;
  return &record;
#else
  if (!path)
    return crashproof_root(sizeof(struct record));
  int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, 4096))
    return 0;
  return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
#endif
}

int main(int argc, char **argv) {
  struct record *record = place(argc > 2 ? argv[2] : 0);
  if (!record)
    return 2;
  if (argc > 1 && !strcmp(argv[1], "look")) {
    if (record->done && record->data != 42)
      return 3;
    if (record->done != 2) {
      record->data = 43;
      crashproof_persist(&record->data, sizeof record->data);
      record->done = 2;
      crashproof_persist(&record->done, sizeof record->done);
      record->data = 42;
      crashproof_persist(&record->data, sizeof record->data);
    }
    return 0;
  }
  // Not meant to run twice.
  if (record->done)
    return 1;
  record->data = 42; // MARK: LOST
#ifdef GOOD
  crashproof_persist(&record->data, sizeof record->data);
#endif
  record->done = 1;
  crashproof_persist(&record->done, sizeof record->done);
  return 0;
}
