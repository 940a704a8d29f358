// Stores are flushed through a list of their addresses. What is on the list is not known, so nothing is known to be flushed: not
// even by a program that forgets to put a store on the list.
//@ args: {dir}/pool
//@ prove: skip (written for lint)
//@ variant listed:
//@ check: clean
//@ lint: unknown (this flush may write back any PM)
//@ variant forgotten: -DFORGOTTEN
//@ check: recovery-fails at lost
//@ lint: unknown (this flush may write back any PM)
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
  uint64_t first, pad1[7];
  uint64_t second, pad2[7];
  uint64_t done, pad3[7];
};
static struct pool *pool;
static void *list[16];
static int listed;

static void put(uint64_t *at, uint64_t value) {
  *at = value;
  list[listed++] = at;
}

static void flush_list(void) {
  for (int i = 0; i < listed; i++)
    _mm_clwb(list[i]);
  _mm_sfence();
  listed = 0;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *pool))
    return 1;
  pool = mmap(0, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED)
    return 1;
  if (pool->done && (pool->first != 1 || pool->second != 2))
    abort();
  put(&pool->first, 1);
#ifdef FORGOTTEN
  pool->second = 2; // MARK: lost
#else
  put(&pool->second, 2);
#endif
  flush_list();
  put(&pool->done, 1);
  flush_list();
  return 0;
}
