// Two mapped files that are accessed in turns, one of them mapped for reading only by the recovery. That an access was permitted before
// says nothing once its mapping is gone, may no longer be written, or the file has become shorter.
//@ args: {dir}/index {dir}/values
//@ prove: skip (prove has no files of several pages)
//@ lint: skip (where a mapping ends is not known to lint)
//@ variant good: -DGOOD
//@ check: clean
//@ variant unmapped: -DUNMAPPED
//@ check: fails-without-crash at READ
//@ variant protected: -DPROTECTED
//@ check: fails-without-crash at WRITE
//@ variant cut: -DCUT
//@ check: fails-without-crash at READ
#include <crashproof.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, COUNT = 4 };

static uint64_t *map(const char *path, int rights, int *file) {
  *file = open(path, O_RDWR | O_CREAT, 0600);
  crashproof_assert(*file >= 0 && ftruncate(*file, 2 * PAGE) == 0);
  uint64_t *words = mmap(0, 2 * PAGE, rights, MAP_SHARED, *file, 0);
  crashproof_assert(words != MAP_FAILED);
  return words + PAGE / sizeof *words;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  int recovers = crashproof_crashes() > 0, first, second;
  uint64_t *values = map(argv[2], recovers ? PROT_READ : PROT_READ | PROT_WRITE, &second);
  uint64_t *index = map(argv[1], PROT_READ | PROT_WRITE, &first);
  if (recovers) {
    for (uint64_t i = 1; i <= COUNT; i++)
      crashproof_assert(index[i] == 0 || values[index[i]] == 10 * i);
    return 0;
  }
  for (uint64_t i = 1; i <= COUNT; i++) {
    values[i] = 10 * i;
    crashproof_persist(&values[i], sizeof values[i]);
    index[i] = i;
    crashproof_persist(&index[i], sizeof index[i]);
  }
#if defined UNMAPPED
  munmap((char *)values - PAGE, 2 * PAGE);
#elif defined PROTECTED
  mprotect((char *)values - PAGE, 2 * PAGE, PROT_READ);
#elif defined CUT
  crashproof_assert(ftruncate(second, PAGE) == 0);
#endif
  crashproof_assert(index[COUNT] == COUNT);
#if defined UNMAPPED || defined CUT
  crashproof_assert(values[COUNT] == 10 * COUNT); // MARK: READ
#elif defined PROTECTED
  crashproof_assert(values[COUNT] == 10 * COUNT);
  values[COUNT] = 0; // MARK: WRITE
#endif
  return 0;
}
