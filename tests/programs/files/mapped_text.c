// A file that is mapped, a text that is written into it, elements that are sorted: the commit comes too early.
//@ cflags: '-DDIR="{dir}"'
//@ check: recovery-fails at recovery-fails
//@ lint: unflushed-write at recovery-fails
//@ lint: unflushed-write at unflushed-write
//@ prove: refuted at claim (is the number)
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
struct file {
  char name[60];
  int sorted[4];
  long valid __attribute__((aligned(64)));
};
static struct file *map(void) {
  int file = open(DIR "/file", O_RDWR | O_CREAT, 0666);
  if (file < 0 || ftruncate(file, 4096) != 0)
    exit(0);
  struct file *mapped = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? 0 : mapped;
}
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void) {
  struct file *file = map();
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int length = snprintf(file->name, sizeof file->name, "%s-%03d:%+ld", "number", 42, 7L);
  crashproof_assert(length == 13 && now.tv_nsec < 1000000000);
  int elements[4] = {3, 1, 4, 2};
  qsort(elements, 4, sizeof *elements, compare);
  memcpy(file->sorted, elements, sizeof elements); // MARK: recovery-fails
  crashproof_persist(file->name, sizeof file->name); /* the last elements lie behind */
  file->valid = 1; // MARK: unflushed-write
  return 0;
}
void recover(void) {
  struct file *file = map();
  if (!file->valid)
    return;
  crashproof_assert(strcmp(file->name, "number-042:+7") == 0);
  for (int i = 0; i < 4; i++)
    crashproof_assert(file->sorted[i] == i + 1 && "this is the number"); // MARK: claim
}
