// A write-ahead log on a disk: a record is complete when its fsync returns, and only then may the data file change. The log
// carries a checksum, so a record that is torn or missing is as if it had never been begun.
//@ flags check: --medium disk
//@ args: {dir}/wal {dir}/data
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD
//@ check: clean
//@ variant late-sync:
//@ check: fails at LOGGED
#include <crashproof.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct record {
  long from, to, sum;
};

static const char *log_path, *data_path;

static void write_data(long from, long to) {
  long both[2] = {from, to};
  int fd = open(data_path, O_RDWR | O_CREAT, 0600);
  /* The two are on different sectors. */
  crashproof_assert(pwrite(fd, &both[0], sizeof(long), 0) == sizeof(long));
  crashproof_assert(pwrite(fd, &both[1], sizeof(long), 8192) == sizeof(long));
  fsync(fd);
  close(fd);
}

static void transfer(long from, long to) {
  struct record record = {from, to, from + to + 1};
  int fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  crashproof_assert(write(fd, &record, sizeof record) == sizeof record); // MARK: LOGGED
#ifdef GOOD
  fsync(fd);
#endif
  close(fd);
  write_data(from, to);
}

/* Applies what the log has, and says whether the sum is still what it always is. */
static void recover(void) {
  struct record record;
  int fd = open(log_path, O_RDONLY);
  if (fd >= 0) {
    if (read(fd, &record, sizeof record) == sizeof record && record.sum == record.from + record.to + 1)
      write_data(record.from, record.to);
    close(fd);
  }
  fd = open(data_path, O_RDONLY);
  if (fd < 0)
    return;
  long from = 0, to = 0;
  int whole = pread(fd, &from, sizeof from, 0) == sizeof from && pread(fd, &to, sizeof to, 8192) == sizeof to;
  close(fd);
  crashproof_assert(whole && from + to == 100);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  log_path = argv[1], data_path = argv[2];
  recover();
  if (crashproof_crashes())
    return 0;
  transfer(60, 40);
  transfer(30, 70);
  return 0;
}
