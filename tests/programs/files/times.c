// Recovery keeps the times and the number of its file in the file, as libpmemobj does in its headers. They do not depend
// on when the checker runs: of two hundred recoveries some run twice, and do the same.
//@ args: {dir}/pool
//@ check: clean
//@ lint: clean
//@ prove: skip (prove has no files)
#include <crashproof.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct pool {
  long count;
  struct stat status, by_name;
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED);
  crashproof_assert(fstat(fd, &pool->status) == 0 && stat(argv[1], &pool->by_name) == 0);
  crashproof_persist(pool, sizeof *pool);
  crashproof_assert(pool->status.st_ino == pool->by_name.st_ino && pool->status.st_size == 4096);
  crashproof_assert(pool->status.st_mtim.tv_sec == pool->by_name.st_mtim.tv_sec);
  crashproof_assert(pool->status.st_nlink == 1 && S_ISREG(pool->status.st_mode));
  if (pool->count)
    return 0;
  for (long count = 1; count <= 200; count++) {
    pool->count = count;
    crashproof_persist(&pool->count, sizeof pool->count);
  }
  return 0;
}
