// A free list; the flush helper counts cache lines by their numbers.
//@ args: {dir}/arena
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant init: -DBUG_init
//@ check: fails at init
//@ lint: fails at init
//@ prove: refuted at claim
//@ variant pending: -DBUG_pending
//@ check: clean
//@ lint: flush-unmodified at objects
//@ prove: proved
//@ variant owner: -DBUG_owner
//@ check: fails at owner
//@ lint: unflushed-write at owner
//@ lint: flush-unmodified at objects
//@ prove: refuted at claim2
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
/* fixed-size objects from a persistent free list; a pending slot makes alloc atomic */
#define NOBJ 6
typedef struct obj { uint64_t next_free; uint64_t owner; uint64_t payload[4]; } obj_t;
typedef struct { uint64_t init; uint64_t free_head; uint64_t pending; uint64_t roots[NOBJ]; obj_t objs[NOBJ + 1]; } arena_t;
#define PERSIST(x) persist_range(&(x), sizeof(x))
static void persist_range(const void *p, size_t n) {
  uintptr_t l = (uintptr_t)p >> 6, e = ((uintptr_t)p + n - 1) >> 6;
  for (; l <= e; l++) _mm_clwb((void *)(l << 6));
  _mm_sfence();
}
static arena_t *A;
static void arena_init(void) {
  for (int i = 1; i <= NOBJ; i++) A->objs[i].next_free = i == NOBJ ? 0 : i + 1; // MARK: init
#ifndef BUG_init
  PERSIST(A->objs); // MARK: objects
#endif
  A->free_head = 1;
  PERSIST(A->free_head);
  A->init = 1;
  PERSIST(A->init);
}
static void arena_recover(void) {
  if (A->pending) {
    uint64_t o = A->pending, reach = 0;
    for (int i = 0; i < NOBJ; i++) if (A->roots[i] == o) reach = 1;
    if (!reach && A->free_head != o) {
      A->objs[o].next_free = A->free_head;
      PERSIST(A->objs[o].next_free);
      A->free_head = o;
      PERSIST(A->free_head);
    }
    A->pending = 0;
    PERSIST(A->pending);
  }
}
static int take(int slot, uint64_t who) {
  uint64_t o = A->free_head;
  if (!o) return -1;
  A->pending = o; // MARK: pending
#ifndef BUG_pending
  PERSIST(A->pending);
#endif
  A->free_head = A->objs[o].next_free;
  PERSIST(A->free_head);
  A->objs[o].owner = who; // MARK: owner
#ifndef BUG_owner
  PERSIST(A->objs[o].owner);
#endif
  A->roots[slot] = o;
  PERSIST(A->roots[slot]);
  A->pending = 0;
  PERSIST(A->pending);
  return 0;
}
static void audit(void) {
  unsigned seen = 0, n = 0;
  for (uint64_t o = A->free_head; o; o = A->objs[o].next_free) { assert(o <= NOBJ && !(seen >> o & 1)); seen |= 1u << o; n++; }
  for (int i = 0; i < NOBJ; i++) if (A->roots[i]) { uint64_t o = A->roots[i]; assert(!(seen >> o & 1)); seen |= 1u << o; n++; assert(A->objs[o].owner == 7); } // MARK: claim2
  assert(n == NOBJ); // MARK: claim
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(arena_t))) { perror("open"); return 1; }
  A = mmap(NULL, sizeof(arena_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (A == MAP_FAILED) { perror("mmap"); return 1; }
  if (!A->init) arena_init();
  arena_recover();
  audit();
  if (!A->roots[0]) take(0, 7);
  if (!A->roots[1]) take(1, 7);
  audit();
  return 0;
}
