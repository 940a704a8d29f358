// A pool that is always mapped at the same address, and holds absolute pointers.
//@ args: {dir}/pool
//@ prove: skip (prove has no addresses of its own for files)
//@ lint: skip (pointers that are read from files)
//@ variant good: -DGOOD
//@ check: clean
//@ variant unflushed:
//@ check: fails at NODE
#include <crashproof.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define BASE ((void *)0x600000000000)

struct node {
  long value;
  struct node *next;
};
struct pool {
  struct node *head;
  struct node nodes[4] __attribute__((aligned(64)));
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  crashproof_assert(fd >= 0 && ftruncate(fd, 8192) == 0);
  struct pool *pool = mmap(BASE, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  crashproof_assert(pool == BASE);
  for (struct node *node = pool->head; node; node = node->next)
    crashproof_assert(node->value > 0);
  if (crashproof_crashes())
    return 0;
  for (int i = 0; i < 3; i++) {
    struct node *node = &pool->nodes[i];
    node->value = i + 1; // MARK: NODE
    node->next = pool->head;
#ifdef GOOD
    crashproof_persist(node, sizeof *node);
#endif
    pool->head = node;
    crashproof_persist(pool, 8);
  }
  return 0;
}
