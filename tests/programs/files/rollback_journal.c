// A rollback journal: the old content is saved before the file changes, and the journal is removed when it has.
//@ flags check: --medium disk --setup "{program} create {dir}/db"
//@ cflags: '-DDIRECTORY="{dir}"'
//@ args: {dir}/db {dir}/db-journal
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DSYNC_JOURNAL -DSYNC_DATA
//@ check: clean
//@ variant journal-not-synced: -DSYNC_DATA
//@ check: fails at CREATED
//@ check: fails at JOURNAL
//@ variant data-not-synced: -DSYNC_JOURNAL
//@ check: fails at DATA
//@ check: fails at DATA_END
#include <crashproof.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct journal {
  long a, b, sum;
};

static const char *journal_path;

static void put(int fd, long a, long b) {
  crashproof_assert(pwrite(fd, &a, sizeof a, 0) == sizeof a); // MARK: DATA
  crashproof_assert(pwrite(fd, &b, sizeof b, 4096) == sizeof b); // MARK: DATA_END
}

static void roll_back(int fd) {
  struct journal old;
  int journal = open(journal_path, O_RDONLY);
  if (journal < 0)
    return;
  if (read(journal, &old, sizeof old) == sizeof old && old.sum == old.a * 3 + old.b + 17) {
    put(fd, old.a, old.b);
    crashproof_assert(fsync(fd) == 0);
  }
  close(journal);
  crashproof_assert(unlink(journal_path) == 0);
}

static void sync_directory(void) {
  int directory = open(DIRECTORY, O_RDONLY | O_DIRECTORY);
  crashproof_assert(directory >= 0 && fsync(directory) == 0 && close(directory) == 0);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  if (strcmp(argv[1], "create") == 0) {
    int fd = open(argv[2], O_RDWR | O_CREAT, 0644);
    put(fd, 50, 50);
    return 0;
  }
  journal_path = argv[2];
  int fd = open(argv[1], O_RDWR, 0644);
  crashproof_assert(fd >= 0);
  roll_back(fd);
  long a = 0, b = 0;
  long whole = pread(fd, &a, sizeof a, 0) == sizeof a && pread(fd, &b, sizeof b, 4096) == sizeof b;
  crashproof_assert(whole && a + b == 100);
  if (crashproof_crashes())
    return 0;
  struct journal old = {50, 50, 50 * 3 + 50 + 17};
  int journal = open(journal_path, O_WRONLY | O_CREAT | O_EXCL, 0644); // MARK: CREATED
  crashproof_assert(journal >= 0 && write(journal, &old, sizeof old) == sizeof old); // MARK: JOURNAL
#ifdef SYNC_JOURNAL
  crashproof_assert(fsync(journal) == 0);
#endif
  close(journal);
  put(fd, 70, 30);
#ifdef SYNC_DATA
  crashproof_assert(fsync(fd) == 0);
#endif
  crashproof_assert(unlink(journal_path) == 0);
  sync_directory();
  return 0;
}
