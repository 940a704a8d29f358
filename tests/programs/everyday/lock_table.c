// A table of lock words beside the records they protect; after a crash every lock is released.
//@ args: {dir}/locks
//@ cflags: -pthread
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ flags check: --schedules 8
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ flags check: --schedules 8
//@ check: recovery-fails-nothing-lost at line-6
//@ prove: refuted at copied-2
//@ variant bug-2: -DBUG=2
//@ flags check: --schedules 8
//@ check: recovery-fails-nothing-lost at copy
//@ prove: refuted at copied

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xmmintrin.h>

#define SLOTS 4

struct record {
  uint64_t value;
  uint64_t copy;
  char pad[48];
};

struct table {
  _Atomic uint32_t lock[SLOTS];
  char pad[64 - SLOTS * 4];
  struct record record[SLOTS];
};

static struct table *table;

static void pflush(void *p) { __builtin_ia32_clflush(p); }

static void lock(unsigned slot) {
  uint32_t expected = 0;
  while (!atomic_compare_exchange_weak(&table->lock[slot], &expected, 1))
    expected = 0;
}

static void unlock(unsigned slot) { atomic_store_explicit(&table->lock[slot], 0, memory_order_release); }

static unsigned slot_of(uint64_t key) { return (unsigned)((key * 2654435761u) % SLOTS); }

static void put(uint64_t key, uint64_t value) {
  unsigned slot = slot_of(key);
  lock(slot);
  struct record *r = &table->record[slot];
#if BUG == 1
  r->value = value; // MARK: value-early
  r->copy = value; // MARK: line-6
  pflush(r);
#else
  r->copy = value; // MARK: copy
  pflush(r);
  _mm_sfence();
  r->value = value; // MARK: value
  pflush(r);
#endif
  _mm_sfence();
  unlock(slot);
}

static void *worker(void *arg) {
  uint64_t id = (uint64_t)(uintptr_t)arg;
  put(id, id + 10);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 2)
    return 1;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(struct table)) != 0)
    return 1;
  table = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (table == MAP_FAILED)
    return 1;
  for (int i = 0; i < SLOTS; i++)
    atomic_init(&table->lock[i], 0);
  for (int i = 0; i < SLOTS; i++) {
    struct record *r = &table->record[i];
#if BUG == 2
    if (r->copy != 0)
      assert(r->value == r->copy); // MARK: copied
#else
    if (r->value != 0)
      assert(r->copy != 0); // MARK: copied-2
#endif
  }
  pthread_t t[2];
  for (uintptr_t i = 0; i < 2; i++)
    pthread_create(&t[i], NULL, worker, (void *)(i + 1));
  for (int i = 0; i < 2; i++)
    pthread_join(t[i], NULL);
  return 0;
}
