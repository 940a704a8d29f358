// What a recovery does to ordinary files, and to directories, is undone before the next one: each finds one start in the
// journal, and no directory of another recovery.
//@ args: {dir}/pool /tmp/other_files_journal /tmp/other_files_scratch
//@ prove: skip (prove has no names of files)
//@ lint: skip (one file of several is persistent)
//@ check: clean
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
  crashproof_assert(argc == 4);
  if (!crashproof_crashes())
    unlink(argv[2]);
  FILE *journal = fopen(argv[2], "a");
  crashproof_assert(journal && fputs("start\n", journal) >= 0 && fclose(journal) == 0);
  struct stat about;
  crashproof_assert(stat(argv[2], &about) == 0);
  crashproof_assert(about.st_size == (crashproof_crashes() ? 12 : 6));
  int fd = open(argv[1], O_RDWR | O_CREAT, 0666);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  long *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED && close(fd) == 0);
  crashproof_assert(pool[1] <= pool[0]);
  if (crashproof_crashes()) {
    crashproof_assert(mkdir(argv[3], 0777) == 0);
    char path[512];
    snprintf(path, sizeof path, "%s/note", argv[3]);
    int note = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    crashproof_assert(note >= 0 && write(note, "x", 1) == 1 && close(note) == 0);
    crashproof_assert(rmdir(argv[3]) == -1);
    return 0;
  }
  for (long n = 1; n < 4; n++) {
    pool[0] = n;
    crashproof_persist(pool, 8);
    pool[1] = n;
    crashproof_persist(pool, 16);
  }
  return 0;
}
