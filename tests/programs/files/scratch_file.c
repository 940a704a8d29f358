// A file for intermediate results is mapped, removed and made anew by every run. Whether its removal survives a crash makes no
// difference: each run begins with an empty one. What another name of the same directory tells recovery still counts.
//@ args: {dir}/pool {dir}/scratch
//@ prove: skip (prove has no files)
//@ lint: skip (what a name means is not known to lint)
//@ variant removed:
//@ check: clean
//@ variant removed-late: -DLATE
//@ check: clean
//@ variant removed-first: -DFIRST
//@ check: clean
//@ variant temporary: -DTEMPORARY
//@ check: clean
//@ variant kept: -DKEPT
//@ check: clean
//@ variant kept-and-read: -DKEPT -DREAD
//@ check: fails at NUMBER
//@ variant removed-and-looked-for: -DLATE -DLOOK
//@ check: fails at LOST
//@ variant value-lost: -DLOSE
//@ check: recovery-fails at VALUE
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NUMBERS = 1000 };

struct pool {
  long value;
  long other_line[7];
  long valid;
};

static void *map(int fd, size_t bytes) {
  crashproof_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(memory != MAP_FAILED);
  close(fd);
  return memory;
}

static int scratch(const char *path) {
#if defined(TEMPORARY)
  char name[512];
  snprintf(name, sizeof name, "%s-XXXXXX", path);
  int fd = mkstemp(name);
  unlink(name);
  return fd;
#elif defined(FIRST)
  unlink(path);
  return open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
#elif defined(READ)
  return open(path, O_RDWR | O_CREAT, 0600);
#else
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
#if !defined(LATE) && !defined(KEPT)
  unlink(path);
#endif
  return fd;
#endif
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  struct pool *pool = map(open(argv[1], O_RDWR | O_CREAT, 0600), sizeof *pool);
  crashproof_assert(!pool->valid || pool->value == NUMBERS);
#ifdef LOOK
  // It must be gone once the value is there.
  crashproof_assert(!pool->valid || access(argv[2], F_OK) != 0);
#endif
  long *numbers = map(scratch(argv[2]), NUMBERS * sizeof *numbers);
#ifdef READ
  crashproof_assert(!pool->valid || numbers[NUMBERS - 1] == NUMBERS - 1);
#endif
  long count = 0;
  for (long number = 0; number < NUMBERS; number++)
    numbers[number] = number; // MARK: NUMBER
  for (long number = 0; number < NUMBERS; number++)
    count += numbers[number] == number;
  munmap(numbers, NUMBERS * sizeof *numbers);
#ifdef LATE
  unlink(argv[2]); // MARK: LOST
#endif
  pool->value = count; // MARK: VALUE
#ifndef LOSE
  crashproof_persist(&pool->value, sizeof pool->value);
#endif
  pool->valid = 1;
  crashproof_persist(&pool->valid, sizeof pool->valid);
  return 0;
}
