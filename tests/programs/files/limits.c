// Programs that need much, and are right: address space, output, files, and children that are none of the checker's
// business.
//@ args: {dir}/pool
//@ prove: skip (prove has no limits of this kind)
//@ lint: skip (nothing to see)
//@ check: clean
#include <crashproof.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  void *huge = mmap(0, 1ul << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  crashproof_assert(huge != MAP_FAILED);
  char *large = malloc(4500000000ul);
  crashproof_assert(large != 0);
  large[0] = 1, large[4499999999ul] = 1;
  for (int line = 0; line < 80000; line++)
    printf("%064d\n", line);
  char path[256];
  for (int number = 0; number < 100; number++) {
    snprintf(path, sizeof path, "%s.%d", argv[1], number);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
    crashproof_assert(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
    close(fd);
  }
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 33l << 30) == 0);
  long *pool = mmap(0, 33ul << 30, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED);
  pid_t child;
  char *words[] = {"true", 0};
  crashproof_assert(posix_spawnp(&child, "true", 0, 0, words, environ) == 0);
  crashproof_assert(waitpid(child, 0, 0) == child && system("exit 0") == 0);
  long *last = pool + (32ul << 30) / sizeof *pool;
  crashproof_assert(*last == 0 || *last == 7);
  *last = 7;
  crashproof_persist(last, sizeof *last);
  return 0;
}
