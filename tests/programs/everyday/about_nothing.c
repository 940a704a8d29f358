// Proofs about nothing: the pool is never opened, nothing is stored, recovery never gets to its assertion.
//@ args: {dir}/pool
//@ check: skip (what is asked is whether a proof says that it is about nothing)
//@ lint: skip (what is asked is whether a proof says that it is about nothing)
//@ prove: vacuous
//@ variant not-opened: -DNOT_OPENED
//@ variant never-stored: -DNEVER_STORED
//@ variant never-claimed: -DNEVER_CLAIMED
//@ variant claimed:
//@ prove: proved

#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
  long magic;
  long value;
};

int main(int argc, char **argv) {
  (void)argc;
#ifdef NOT_OPENED
  int fd = open(argv[1], O_RDWR);
#else
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
#endif
  if (fd < 0)
    return 0;
  if (ftruncate(fd, 4096) != 0)
    return 0;
  struct pool *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
#ifdef NEVER_CLAIMED
  long wanted = 0x706f6f6d;
#else
  long wanted = 0x706f6f6c;
#endif
  if (pool->magic == wanted)
    assert(pool->value == 5);
#ifndef NEVER_STORED
  pool->value = 5;
  _mm_clwb(&pool->value);
  _mm_sfence();
  pool->magic = 0x706f6f6c;
  _mm_clwb(&pool->magic);
  _mm_sfence();
#endif
  return 0;
}
