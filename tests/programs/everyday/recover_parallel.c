// Recovery that starts threads: each repairs its part of the table.
//@ args: {dir}/parts
//@ cflags: -pthread
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ flags check: --schedules 8
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ flags check: --schedules 8
//@ check: clean
//@ prove: proved
//@ variant bug-2: -DBUG=2
//@ flags check: --schedules 8
//@ check: clean
//@ prove: proved

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

#define PARTS 2
#define PER 2

struct cell {
  uint64_t seq; /* odd: being written */
  uint64_t value;
  uint64_t backup;
  uint64_t pad[5];
};
struct pool {
  struct cell cell[PARTS * PER];
};
static struct pool *pool;

static void persist(void *p) {
  _mm_clwb(p);
  _mm_sfence();
}

static void write_cell(struct cell *c, uint64_t value) {
  c->backup = c->value;
  c->seq++;
  persist(c);
  c->value = value; // MARK: value
#if BUG != 1
  persist(c);
#endif
  c->seq++; // MARK: seq
  persist(c);
}

static void *repair(void *arg) {
  struct cell *c = &pool->cell[(uintptr_t)arg * PER];
  for (int i = 0; i < PER; i++, c++) {
    if (c->seq & 1) {
      c->value = c->backup;
#if BUG != 2
      persist(c);
#endif
      c->seq--;
      persist(c);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "parts", O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof *pool) != 0)
    return 1;
  pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED)
    return 1;
  pthread_t t[PARTS];
  for (uintptr_t i = 0; i < PARTS; i++)
    if (pthread_create(&t[i], NULL, repair, (void *)i) != 0)
      return 1;
  for (int i = 0; i < PARTS; i++)
    pthread_join(t[i], NULL);
  for (int i = 0; i < PARTS * PER; i++) {
    assert(pool->cell[i].seq % 2 == 0); // MARK: even
    assert(pool->cell[i].value == pool->cell[i].seq / 2 * 5); // MARK: claim
  }
  if (pool->cell[1].seq == 0) {
    write_cell(&pool->cell[1], 5);
    write_cell(&pool->cell[1], 10);
    write_cell(&pool->cell[2], 5);
  }
  return 0;
}
