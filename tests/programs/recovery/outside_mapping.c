// What a program accesses outside of its mappings ends it, as without the checker: behind the end of a mapping or of the
// file, after munmap, against the protection. Recoveries that follow a wrong index there fail.
//@ args: {dir}/pool
//@ prove: skip (prove has no files of several pages)
//@ lint: skip (where a mapping ends is not known to lint)
//@ variant good: -DGOOD
//@ check: clean
//@ variant trusted: -DTRUSTED
//@ check: recovery-fails at LENGTH
//@ variant shrunk: -DSHRUNK
//@ check: fails-without-crash at BEHIND
//@ variant grown: -DGROWN
//@ check: clean
//@ variant unmapped: -DUNMAPPED
//@ check: fails-without-crash at UNMAPPED
//@ variant copied: -DCOPIED
//@ check: fails-without-crash at COPIED
//@ variant protected: -DPROTECTED
//@ check: fails-without-crash at PROTECTED
//@ variant read: -DREAD
//@ check: fails-without-crash at READ
//@ variant twice: -DTWICE
//@ check: clean
//@ variant moved: -DMOVED
//@ check: clean
//@ variant mended: -DMENDED
//@ check: clean
//@ variant blocked: -DBLOCKED
//@ check: fails-without-crash at BLOCKED
//@ variant ignored: -DIGNORED
//@ check: fails-without-crash at IGNORED
#define _GNU_SOURCE
#include <crashproof.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, SIZE = 2 * PAGE };

struct header {
  uint64_t valid;
  uint64_t apart[7];
  uint64_t length;
};

static char *pool;
static int file;

#ifdef MENDED
static void grow(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  crashproof_assert((char *)info->si_addr == pool + SIZE);
  crashproof_assert(ftruncate(file, 2 * SIZE) == 0);
}
#endif

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  file = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(file >= 0 && ftruncate(file, SIZE) == 0);
#if defined(GROWN) || defined(MENDED)
  enum { MAPPED = 2 * SIZE };
#else
  enum { MAPPED = SIZE };
#endif
  pool = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  crashproof_assert(pool != MAP_FAILED);
  struct header *header = (struct header *)pool;
  if (header->valid) {
    // A length that was lost is that of no record: the byte in front of its end is far away.
    uint64_t length = header->length;
#ifndef TRUSTED
    if (length == 0 || length > PAGE)
      return 0;
#endif
    crashproof_assert(pool[PAGE + (length - 1) % ((uint64_t)1 << 24)] == 0);
  }
  header->length = 100; // MARK: LENGTH
#ifndef TRUSTED
  crashproof_persist(&header->length, sizeof header->length);
#endif
  header->valid = 1;
  crashproof_persist(&header->valid, sizeof header->valid);
#ifdef SHRUNK
  crashproof_assert(ftruncate(file, PAGE) == 0);
  pool[PAGE] = 1; // MARK: BEHIND
#elif defined(GROWN)
  crashproof_assert(ftruncate(file, 2 * SIZE) == 0);
  pool[SIZE] = 1;
  crashproof_persist(pool + SIZE, 1);
#elif defined(UNMAPPED)
  crashproof_assert(munmap(pool + PAGE, PAGE) == 0);
  pool[PAGE] = 1; // MARK: UNMAPPED
#elif defined(COPIED)
  char zeros[100] = {0};
  memcpy(pool + SIZE - 50, zeros, argc * 50); // MARK: COPIED
#elif defined(PROTECTED)
  crashproof_assert(mprotect(pool, PAGE, PROT_READ) == 0);
  header->valid = 1; // MARK: PROTECTED
#elif defined(READ)
  return pool[SIZE + argc]; // MARK: READ
#elif defined(TWICE)
  char *again = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  crashproof_assert(again != MAP_FAILED && munmap(again, SIZE) == 0);
  header->valid = 1;
  crashproof_persist(&header->valid, sizeof header->valid);
#elif defined(MOVED)
  crashproof_assert(ftruncate(file, 2 * SIZE) == 0);
  pool = mremap(pool, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
  crashproof_assert(pool != MAP_FAILED);
  pool[2 * SIZE - 1] = 1;
  crashproof_persist(pool + 2 * SIZE - 1, 1);
#elif defined(BLOCKED)
  sigset_t all;
  sigfillset(&all);
  crashproof_assert(sigprocmask(SIG_BLOCK, &all, NULL) == 0 && ftruncate(file, PAGE) == 0);
  pool[PAGE] = 1; // MARK: BLOCKED
#elif defined(IGNORED)
  crashproof_assert(signal(SIGBUS, SIG_IGN) != SIG_ERR && ftruncate(file, PAGE) == 0);
  pool[PAGE] = 1; // MARK: IGNORED
#elif defined(MENDED)
  struct sigaction action = {.sa_sigaction = grow, .sa_flags = SA_SIGINFO};
  crashproof_assert(sigaction(SIGBUS, &action, NULL) == 0);
  pool[SIZE] = 1;
  crashproof_persist(pool + SIZE, 1);
#endif
  return 0;
}
