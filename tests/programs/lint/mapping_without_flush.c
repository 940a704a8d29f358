// A file that is mapped shared is persistent memory, also if it is never flushed.
//@ prove: skip (files are not modeled)
//@ variant alone: -DALONE
//@ check: skip (the file has to be named as persistent memory)
//@ lint: unflushed-write at LOST
//@ variant beside: -DBESIDE
//@ check: skip (the file has to be named as persistent memory)
//@ lint: unflushed-write at LOST
//@ variant flushed: -DFLUSHED
//@ check: skip (the file has to be named as persistent memory)
//@ lint: clean
//@ variant reading: -DBESIDE -DREADING
//@ check: skip (the file has to be named as persistent memory)
//@ lint: clean
#include <crashproof.h>
#include <fcntl.h>
#include <sys/mman.h>

#ifdef READING
#define PROTECTION PROT_READ
#else
#define PROTECTION (PROT_READ | PROT_WRITE)
#endif

#ifdef BESIDE
PERSISTENT long other;
#endif

static long *map(const char *path) {
  int file = open(path, O_RDWR);
  return mmap(0, 4096, PROTECTION, MAP_SHARED, file, 0);
}

int main(int count, char **arguments) {
  long *pool = map(arguments[count - 1]);
#ifndef READING
  pool[0] = 1; // MARK: LOST
#endif
#ifdef FLUSHED
  crashproof_persist(pool, sizeof *pool);
#endif
#ifdef BESIDE
  other = pool[0];
  crashproof_persist(&other, sizeof other);
#endif
  return 0;
}
