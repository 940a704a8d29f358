// A list in a mapped file that grows by one node after another. Recovery walks it.
#include <assert.h>
#include <emmintrin.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
  long value, next, unused[6];
};

static void persist(const void *start) {
  _mm_clflush(start);
  _mm_sfence();
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 9;
  long count = atol(argv[1]);
  int fd = open(argv[2], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, (count + 1) * sizeof(struct node)))
    return 8;
  struct node *nodes = mmap(0, (count + 1) * sizeof(struct node), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  // The two words of the first line change one after the other.
  assert(nodes[0].value == nodes[0].next || nodes[0].value == nodes[0].next + 1);
  for (long at = nodes[0].next; at; at = nodes[at].next)
    assert(nodes[at].value == at);
  if (nodes[0].next)
    return 0;
  for (long at = 1; at <= count; at++) {
    nodes[at].value = at;
    nodes[at].next = nodes[0].next;
    persist(&nodes[at]);
    nodes[0].value = at;
    nodes[0].next = at;
    persist(&nodes[0]);
  }
  return 0;
}
