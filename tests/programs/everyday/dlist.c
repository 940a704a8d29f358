// A doubly linked list in a mapped file. Forward pointers are the truth; recovery repairs the backward ones by following
// them.
//@ args: {dir}/list
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at key
//@ prove: refuted at positive
//@ variant bug-2: -DBUG=2
//@ check: recovery-fails-nothing-lost at head
//@ prove: refuted at tail

#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>

struct node {
  struct node *next, *prev;
  long key;
  long pad[5];
};

struct pool {
  struct node *head;
  struct node *tail;
  long used;
  long pad[5];
  struct node nodes[8];
};

static struct pool *pool;

static inline void clwb_range(const void *start, size_t len) {
  const char *p = (const char *)((uintptr_t)start & ~(uintptr_t)63);
  for (; p < (const char *)start + len; p += 64)
    _mm_clwb((void *)p);
}
#define persist(p, n)                                                                                        \
  do {                                                                                                       \
    clwb_range((p), (n));                                                                                    \
    _mm_sfence();                                                                                            \
  } while (0)

static void push_front(long key) {
  struct node *n = &pool->nodes[pool->used];
  pool->used++;
  persist(&pool->used, sizeof pool->used);
  n->key = key; // MARK: key
  n->next = pool->head;
  n->prev = NULL;
#if BUG != 1
  persist(n, sizeof *n);
#endif
  struct node *old = pool->head;
  pool->head = n; // MARK: head
  persist(&pool->head, sizeof pool->head);
  if (old)
    old->prev = n; // MARK: prev
  else
    pool->tail = n;
  if (old)
    persist(&old->prev, sizeof old->prev);
  else
    persist(&pool->tail, sizeof pool->tail);
}

static void repair(void) {
  struct node *last = NULL;
  for (struct node *n = pool->head; n; n = n->next) {
    if (n->prev != last) {
      n->prev = last;
      persist(&n->prev, sizeof n->prev);
    }
    last = n;
  }
#if BUG != 2
  if (pool->tail != last) {
    pool->tail = last;
    persist(&pool->tail, sizeof pool->tail);
  }
#endif
}

static void check(void) {
  long count = 0;
  for (struct node *n = pool->head; n; n = n->next) {
    assert(n->key > 0); // MARK: positive
    if (n->next)
      assert(n->next->prev == n);
    else
      assert(pool->tail == n); // MARK: tail
    count++;
  }
  assert(count <= pool->used);
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "/mnt/pmem/list";
  int fd = open(path, O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof *pool) < 0) {
    perror("open");
    return 1;
  }
  pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  repair();
  check();
  if (pool->used == 0) {
    push_front(11);
    push_front(22);
  }
  check();
  return 0;
}
