// A member says how often a loop runs. What comes behind the loop comes in any case: it is not guarded by that member. What the
// loop itself does is.
//@ check: skip (written for lint: how it recovers is not the point)
//@ prove: skip (written for lint: how it recovers is not the point)
//@ variant counts:
//@ lint: clean, no warnings
//@ variant inside: -DINSIDE
//@ lint: publish-before-persist at key
#include <emmintrin.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
  long key;
  char apart[56];
  long height;
};

static void persist(void *at, long bytes) {
  for (char *line = at; line < (char *)at + bytes; line += 64)
    _mm_clflush(line);
  _mm_sfence();
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR);
  struct node *n = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (n == MAP_FAILED)
    return 1;
  long sum = 0;
  for (long i = 0; i < n->height; i++)
#ifdef INSIDE
    sum += n->key;
#else
    sum += i;
#endif
  printf("%ld %ld\n", sum, n->key);
  n->key = argc; // MARK: key
  n->height = 2;
  persist(n, sizeof *n);
  return 0;
}
