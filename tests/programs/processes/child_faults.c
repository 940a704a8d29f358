// A forked child crashes with a segmentation fault, and the parent gives up. Without any crash that is a finding at the child's
// instruction; after one it is what a lost store leads to.
//@ args: {dir}/pool
//@ prove: skip (prove has no processes)
//@ lint: skip (what a child does is not known to lint)
//@ variant always:
//@ check: fails-without-crash at FAULT
//@ variant told: -DTOLD
//@ check: fails-without-crash at FAULT
//@ variant recovery: -DRECOVERY
//@ check: recovery-fails at LINK
//@ variant correct: -DRECOVERY -DCORRECT
//@ check: clean
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct pool {
  long value;
  _Alignas(64) long *link;
  _Alignas(64) long valid;
};

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 4096) == 0);
  struct pool *pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(pool != MAP_FAILED);
  long *volatile link = pool->link;
#ifdef RECOVERY
  if (!pool->valid)
    link = &pool->value;
#endif
  pid_t child = fork();
  if (child == 0) {
    *link = 1; // MARK: FAULT
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status)) {
#ifdef TOLD
    fprintf(stderr, "the worker has crashed\n");
#endif
    return 3;
  }
  pool->link = &pool->value; // MARK: LINK
#ifdef CORRECT
  crashproof_persist(&pool->link, sizeof pool->link);
#endif
  pool->valid = 1;
  crashproof_persist(&pool->valid, sizeof pool->valid);
  return 0;
}
