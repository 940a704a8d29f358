// A store that is mapped and written with msync keeps its meta data in one sector of 512 bytes. On a disk the sector is
// written whole; on persistent memory its lines are not.
//@ args: {dir}/store
//@ prove: skip (prove has no disks)
//@ lint: skip (lint has no disks)
//@ variant disk: -DDISK
//@ flags check: --medium disk
//@ check: clean
//@ variant small-sectors: -DDISK
//@ flags check: --medium disk --sector 128
//@ check: fails at ROOT
//@ variant dax:
//@ check: fails at ROOT
#include <crashproof.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct meta {
  long root;
  char unused[248];
  long pages; /* another line of the same sector */
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0 && fsync(fd) == 0);
  struct meta *meta = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(meta != MAP_FAILED);
  if (crashproof_crashes()) {
    crashproof_assert(meta->pages >= meta->root);
    return 0;
  }
  for (long turn = 1; turn < 3; turn++) {
    meta->pages = turn; // MARK: ROOT
    meta->root = turn;
    crashproof_assert(msync(meta, 4096, MS_SYNC) == 0);
  }
  return 0;
}
