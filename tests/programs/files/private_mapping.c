// A private mapping of a file that does not change is a copy of it, and behind its end there is nothing. Recovery writes a
// scratch file that it maps so: that is no business of the persistent one.
//@ args: {dir}/pool
//@ flags check: --pm-path {dir}
//@ prove: skip (prove has no files)
//@ lint: skip (what the kernel writes is not followed)
//@ variant good: -DGOOD
//@ check: clean
//@ variant named: -DGOOD
//@ flags check: --pm-path {dir}/pool
//@ check: clean
//@ variant lost:
//@ check: fails at VALUE
//@ variant changed: -DGOOD -DCHANGED
//@ check: unknown (also mapped privately)
#include <crashproof.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
  long value;
  char pad[56];
  long valid;
};

static sigjmp_buf behind_the_end;

static void on_bus_error(int number) {
  (void)number;
  siglongjmp(behind_the_end, 1);
}

static void look_at_copy(const char *path) {
  int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
  char name[] = "/tmp/scratchXXXXXX";
  if (!path) {
    fd = mkstemp(name);
    unlink(name);
  }
  crashproof_assert(fd >= 0 && write(fd, "words", 5) == 5);
  volatile char *copy = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
  crashproof_assert(copy != MAP_FAILED && copy[0] == 'w' && copy[4] == 's' && copy[5] == 0);
  int ended = sigsetjmp(behind_the_end, 1);
  if (!ended)
    (void)copy[4096];
  crashproof_assert(ended);
#ifdef CHANGED
  crashproof_assert(pwrite(fd, "W", 1, 0) == 1);
#endif
  close(fd);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  signal(SIGBUS, on_bus_error);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  struct pool *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED);
  char other[4096];
  strcpy(other, argv[1]);
  strcat(other, ".copy");
  look_at_copy(NULL);
  look_at_copy(other);
  crashproof_assert(!pool->valid || pool->value == 7);
  pool->value = 7; // MARK: VALUE
#ifdef GOOD
  crashproof_persist(&pool->value, sizeof pool->value);
#endif
  pool->valid = 1;
  crashproof_persist(&pool->valid, sizeof pool->valid);
  return 0;
}
