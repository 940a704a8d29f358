// A doubly linked list by index in an array of nodes; back links are repaired by recovery.
//@ args: {dir}/dlist
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant node: -DBUG=1
//@ check: recovery-fails at key
//@ lint: unflushed-write at key
//@ lint: unflushed-write at next
//@ lint: unflushed-write at prev
//@ prove: refuted at claim
//@ variant back: -DBUG=2
//@ check: missing-flush at back
//@ lint: unflushed-write at back
//@ prove: proved
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CACHELINE 64
#define NNODES 8
#define NIL 0

struct node {
  uint32_t next, prev;
  uint64_t key;
} __attribute__((aligned(CACHELINE)));

struct list {
  struct node n[NNODES]; /* n[0] is the head */
};

static void pm_flush(const void *p) { __asm__ __volatile__("clflush %0" : : "m"(*(const char *)p) : "memory"); }
static void pm_fence(void) { __asm__ __volatile__("mfence" ::: "memory"); }
#define SYNC(x) (pm_flush(&(x)), pm_fence())

static struct list *L;

static void insert_front(uint32_t i, uint64_t key) {
  struct node *n = &L->n[i], *head = &L->n[0];
  uint32_t first = head->next;
  n->key = key; // MARK: key
  n->next = first; // MARK: next
  n->prev = 0; // MARK: prev
#if BUG != 1
  SYNC(*n);
#endif
  head->next = i;
  SYNC(head->next);
  if (first != NIL) {
    L->n[first].prev = i; // MARK: back
#if BUG != 2
    SYNC(L->n[first].prev);
#endif
  }
}

static unsigned repair(void) {
  unsigned count = 0;
  uint32_t prev = 0;
  for (uint32_t i = L->n[0].next; i != NIL; i = L->n[i].next) {
    assert(L->n[i].key == 10 * i); // MARK: claim
    if (L->n[i].prev != prev) {
      L->n[i].prev = prev;
      SYNC(L->n[i].prev);
    }
    prev = i;
    count++;
  }
  return count;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0)
    abort();
  if (ftruncate(fd, sizeof(struct list)))
    abort();
  L = mmap(NULL, sizeof(struct list), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (L == MAP_FAILED)
    abort();
  unsigned have = repair();
  for (uint32_t i = have + 1; i <= 3; i++)
    insert_front(i, 10 * i);
  return 0;
}
