// A linked list by offsets, with a bump allocator in the same pool.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant node: -DBUG=1
//@ lint: unflushed-write at node-value
//@ lint: unflushed-write at node-next
//@ variant head: -DBUG=2
//@ lint: unflushed-write at head
//@ variant top: -DBUG=3
//@ lint: unflushed-write at top
//@ variant order: -DBUG=4
//@ lint: publish-before-persist at node-value
//@ lint: publish-before-persist at node-next
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t off_ptr;

struct node {
  uint64_t value;
  off_ptr next;
};

struct root {
  uint64_t magic;
  off_ptr head;
  uint64_t top;
};

static char *base;
#define POOL_BYTES 8192
#define AT(type, off) ((type *)(base + (off)))
#define ROOT AT(struct root, 0)

static void clwb(const volatile void *p) { asm volatile("clwb %0" : "+m"(*(volatile char *)p)); }
static void sfence(void) { asm volatile("sfence" ::: "memory"); }

static void pm_sync(const void *addr, size_t len) {
  for (uintptr_t p = (uintptr_t)addr & ~63ull; p < (uintptr_t)addr + len; p += 64)
    clwb((void *)p);
  sfence();
}

static off_ptr pm_alloc(size_t n) {
  off_ptr off = ROOT->top;
  if (off + n > POOL_BYTES)
    return 0;
  ROOT->top = off + n; // MARK: top
#if BUG != 3
  pm_sync(&ROOT->top, sizeof ROOT->top);
#endif
  return off;
}

static int list_push(uint64_t value) {
  off_ptr off = pm_alloc(64);
  if (!off)
    return -1;
  struct node *n = AT(struct node, off);
  n->value = value; // MARK: node-value
  n->next = ROOT->head; // MARK: node-next
#if BUG != 1 && BUG != 4
  pm_sync(n, sizeof *n);
#endif
  ROOT->head = off; // MARK: head
#if BUG != 2
  pm_sync(&ROOT->head, sizeof ROOT->head);
#endif
#if BUG == 4
  pm_sync(n, sizeof *n);
#endif
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0666);
  if (fd < 0 || ftruncate(fd, POOL_BYTES) != 0)
    return 1;
  base = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    return 1;
  if (ROOT->magic != 0xfeed) {
    ROOT->head = 0;
    ROOT->top = 128;
    pm_sync(ROOT, sizeof *ROOT);
    ROOT->magic = 0xfeed;
    pm_sync(&ROOT->magic, sizeof ROOT->magic);
  }
  uint64_t last = 0, count = 0;
  for (off_ptr off = ROOT->head; off; off = AT(struct node, off)->next) {
    assert(off < ROOT->top);
    uint64_t v = AT(struct node, off)->value;
    assert(v != 0 && (last == 0 || v == last - 1));
    last = v;
    count++;
  }
  for (uint64_t v = count + 1; v <= 3; v++)
    if (list_push(v) < 0)
      return 2;
  return 0;
}
