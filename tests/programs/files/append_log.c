// A log that is appended to, every record durable when write() returns, and a reader's position in another file.
//@ flags check: --medium disk
//@ args: {dir}/log {dir}/position
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DHOW=O_DSYNC
//@ check: clean
//@ variant sync: -DHOW=O_SYNC
//@ check: clean
//@ variant cached: -DHOW=0
//@ check: fails at RECORD
#include <crashproof.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

struct record {
  uint32_t length, sum;
  char text[24];
};

static uint32_t sum(const char *text) {
  uint32_t all = 7;
  while (*text)
    all = all * 33 + (unsigned char)*text++;
  return all;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  int log = open(argv[1], O_RDWR | O_CREAT | O_APPEND | HOW, 0644);
  int position = open(argv[2], O_RDWR | O_CREAT, 0644);
  crashproof_assert(log >= 0 && position >= 0);
  uint64_t consumed = 0;
  if (pread(position, &consumed, sizeof consumed, 0) == sizeof consumed) {
    for (uint64_t i = 0; i < consumed; i++) {
      struct record record;
      crashproof_assert(pread(log, &record, sizeof record, (off_t)(i * sizeof record)) == sizeof record);
      crashproof_assert(record.length == 5 && record.sum == sum(record.text));
    }
  }
  if (crashproof_crashes())
    return 0;
  for (int i = 0; i < 2; i++) {
    struct record record = {5, 0, "hello"};
    record.sum = sum(record.text);
    crashproof_assert(write(log, &record, sizeof record) == sizeof record); // MARK: RECORD
    consumed++;
    crashproof_assert(pwrite(position, &consumed, sizeof consumed, 0) == sizeof consumed && fsync(position) == 0);
  }
  return 0;
}
