// Code that was not rebuilt: stores to a mapped file that fault, stores that are patched once they are hot, and work on
// volatile memory alone. The first argument says which, the second how often, the third names the file.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// So many instructions, each at a place of its own.
#define FOUR(x) x; x; x; x;
#define SIXTY_FOUR(x) FOUR(FOUR(FOUR(x)))
#define MANY(x) SIXTY_FOUR(SIXTY_FOUR(x))

static void at_many_places(volatile long *word) { MANY(*word = 1) }

int main(int argc, char **argv) {
  if (argc != 4)
    return 9;
  int fd = open(argv[3], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 4096))
    return 8;
  volatile long *words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  long count = atol(argv[2]), sum = 0;
  if (!strcmp(argv[1], "faults"))
    for (long i = 0; i < count; i++)
      at_many_places(words);
  else if (!strcmp(argv[1], "stores"))
    for (long i = 0; i < count; i++)
      words[i % 512] = i;
  else
    for (volatile long i = 0; i < count; i++)
      sum += i;
  return sum == 42;
}
