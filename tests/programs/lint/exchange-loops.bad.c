// As exchange-loops.good.c, with the flush of what the exchange stored left out, and one that is made twice.
//@ args: {dir}/pool
//@ check: skip (nothing is recovered)
//@ lint: unflushed-write at head
//@ lint: redundant-flush at twice
//@ prove: skip (nothing is claimed)
#include <fcntl.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
  _Atomic uint64_t head;
  uint64_t pad[7];
  _Atomic uint64_t count;
};
static struct pool *pool;

static void set_head(uint64_t to) {
  uint64_t old = atomic_load(&pool->head);
  while (!atomic_compare_exchange_weak(&pool->head, &old, to)) // MARK: head
    ;
  _mm_sfence();
}

static void count(void) {
  uint64_t old;
  do {
    old = atomic_load(&pool->count);
    if (old >= 100)
      return;
  } while (!atomic_compare_exchange_strong(&pool->count, &old, old + 1));
  _mm_clwb(&pool->count);
  _mm_sfence();
  _mm_clwb(&pool->count); // MARK: twice
  _mm_sfence();
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *pool))
    return 1;
  pool = mmap(0, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED)
    return 1;
  set_head(1);
  count();
  return 0;
}
