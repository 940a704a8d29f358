// So many stores to persistent memory, or loads from it, in a loop.
#include <crashproof.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  volatile long *words = crashproof_root(4096);
  words[0] = 1;
  long count = argc > 2 ? atol(argv[2]) : 0, sum = 0;
  if (argc > 1 && !strcmp(argv[1], "store"))
    for (long i = 0; i < count; i++)
      words[i % 512] = i;
  else
    for (long i = 0; i < count; i++)
      sum += words[i % 512];
  return sum == 42;
}
