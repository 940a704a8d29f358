// A file on the PM path, mapped shared: the same address in every run.
//@ args: {dir}/pool
//@ prove: unknown
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: split-update at LOST
//@ lint: flush-unmodified at flush-unmodified
//@ prove: unknown (is not modeled)
//@ variant plain:
//@ prove: refuted at claim-violated
//@ check: fails at LOST
//@ figures: 2 crash points, 3 recoveries
//@ lint: unflushed-write at LOST
//@ lint: flush-unmodified at flush-unmodified
//@ variant good-msync: -DGOOD -DMSYNC
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: split-update at LOST
//@ prove: unknown (is not modeled)
//@ variant good-fsync: -DGOOD -DFSYNC
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: split-update at LOST
//@ variant good-reserve: -DGOOD -DRESERVE
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: split-update at LOST
//@ lint: flush-unmodified at flush-unmodified
//@ prove: unknown (is not modeled)
//@ variant reserve: -DRESERVE
//@ prove: refuted at claim-violated
//@ check: fails at LOST
//@ figures: 2 crash points, 3 recoveries
//@ lint: unflushed-write at LOST
//@ lint: flush-unmodified at flush-unmodified
//@ variant good-remap: -DGOOD -DREMAP
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: unknown (PM passed to the unknown function `mremap`: add its source, or describe it with --api)
//@ lint: split-update at LOST
//@ prove: unknown (calls `dup`, which is not defined here)
//@ variant good-punch: -DGOOD -DPUNCH
//@ check: clean
//@ figures: 5 crash points, 2 recoveries
//@ lint: split-update at LOST
//@ lint: flush-unmodified at flush-unmodified
//@ prove: unknown (is not modeled)
//@ variant good-sendfile: -DGOOD -DSENDFILE
//@ check: clean
//@ figures: 3 crash points, 2 recoveries
//@ lint: split-update at LOST
//@ lint: flush-unmodified at flush-unmodified
//@ prove: unknown (is not modeled)
//@ variant private: -DPRIVATE
//@ check: unknown (also mapped privately)
//@ figures: 3 crash points, 4 recoveries
//@ lint: split-update at LOST
//@ lint: flush-unmodified at flush-unmodified
//@ prove: unknown (is not modeled)
//@ variant fixed: -DFIXED
//@ prove: refuted at claim-violated
//@ check: fails at LOST
//@ figures: 2 crash points, 3 recoveries
//@ lint: unflushed-write at LOST
//@ lint: flush-unmodified at flush-unmodified
#include <crashproof.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

struct pool {
  struct pool *self;
  char text[120];
  long done;
};

#define SIZE (4 << 20)

static void persist(int fd, void *p, size_t bytes) {
#if defined MSYNC
  (void)fd;
  msync((void *)((uintptr_t)p & ~4095ul), bytes + ((uintptr_t)p & 4095), MS_SYNC);
#elif defined FSYNC
  (void)p, (void)bytes;
  fsync(fd);
#else
  (void)fd;
  crashproof_persist(p, bytes);
#endif
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int existed = access(argv[1], F_OK) == 0;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0);
  if (!existed)
    crashproof_assert(posix_fallocate(fd, 0, SIZE) == 0);
  struct stat status;
  crashproof_assert(fstat(fd, &status) == 0 && status.st_size == SIZE);
  void *where = NULL;
  int flags = MAP_SHARED;
#ifdef RESERVE
  where = mmap(NULL, SIZE + (2 << 20), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  where = (void *)(((uintptr_t)where + (2 << 20) - 1) & ~((2ul << 20) - 1));
  flags = MAP_SHARED_VALIDATE | MAP_SYNC | MAP_FIXED;
#endif
#ifdef FIXED
  where = (void *)0x200000000000;
  flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
#endif
#ifdef PRIVATE
  mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
#endif
  struct pool *pool = mmap(where, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
  crashproof_assert(pool != MAP_FAILED);
#ifdef REMAP
  munmap(pool, SIZE);
  struct pool *again = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, dup(fd), 0);
  crashproof_assert(again == pool);
  crashproof_assert(mremap(pool, 4096, SIZE, 0) == pool);
#endif
  if (pool->done) {
    crashproof_assert(pool->self == pool);
    crashproof_assert(strcmp(pool->text, "durable") == 0); // MARK: claim-violated
    char text[8];
    crashproof_assert(pread(fd, text, 8, 8) == 8 && strcmp(text, "durable") == 0);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
#ifdef PUNCH
  memset((char *)pool + 4000, 1, 8192);
  persist(fd, (char *)pool + 4000, 8192);
  crashproof_assert(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5000, 4096) == 0);
  char *bytes = (char *)pool;
  crashproof_assert(bytes[4999] == 1 && bytes[5000] == 0 && bytes[9095] == 0 && bytes[9096] == 1);
#endif
#ifdef SENDFILE
  int ends[2];
  crashproof_assert(pipe(ends) == 0 && sendfile(ends[1], fd, NULL, 16) == 16);
#endif
  pool->self = pool;
  persist(fd, pool, sizeof *pool); // MARK: flush-unmodified
  strcpy(pool->text, "durable"); // MARK: LOST
#if defined GOOD || defined PRIVATE
  persist(fd, pool, sizeof *pool);
#endif
  pool->done = 1;
  persist(fd, &pool->done, sizeof pool->done);
  munmap(pool, SIZE);
  close(fd);
  return 0;
}
