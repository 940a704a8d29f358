// A store of records in a file, as write() and fsync() make it: first the record, then the header that counts it.
//@ flags check: --medium disk
//@ args: {dir}/store
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD
//@ check: clean
//@ variant one-sync:
//@ check: fails at RECORD
#include <crashproof.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

struct header {
  uint64_t magic, count;
};
struct record {
  char key[24], value[40];
};

static void add(int fd, struct header *header, const char *key, const char *value) {
  struct record record = {"", ""};
  strncpy(record.key, key, sizeof record.key - 1);
  strncpy(record.value, value, sizeof record.value - 1);
  off_t at = 4096 + (off_t)header->count * (off_t)sizeof record;
  crashproof_assert(pwrite(fd, &record, sizeof record, at) == sizeof record); // MARK: RECORD
#ifdef GOOD
  crashproof_assert(fdatasync(fd) == 0);
#endif
  header->count++;
  crashproof_assert(pwrite(fd, header, sizeof *header, 0) == sizeof *header);
  crashproof_assert(fsync(fd) == 0);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  crashproof_assert(fd >= 0);
  struct header header = {0, 0};
  if (pread(fd, &header, sizeof header, 0) != sizeof header || header.magic != 0x4b56) {
    header = (struct header){0x4b56, 0};
    crashproof_assert(pwrite(fd, &header, sizeof header, 0) == sizeof header && fsync(fd) == 0);
  }
  for (uint64_t i = 0; i < header.count; i++) {
    struct record record;
    crashproof_assert(pread(fd, &record, sizeof record, 4096 + (off_t)(i * sizeof record)) == sizeof record);
    crashproof_assert(record.key[0] == 'k' && record.value[0] == 'v');
  }
  while (header.count < 2)
    add(fd, &header, "key", "value");
  return 0;
}
