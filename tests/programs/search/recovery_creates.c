// Recovery creates a file and notes so; the recovery after the next crash relies on it.
//@ args: {dir}/pool
//@ flags check: --crashes 2
//@ check: clean
//@ prove: skip (prove looks at one crash)
#include <assert.h>
#include <crashproof.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct line {
  volatile long value;
} __attribute__((aligned(64)));

struct root {
  struct line done, created;
};

int main(int argc, char **argv) {
  struct root *root = crashproof_root(sizeof *root);
  assert(argc == 2);
  if (!crashproof_crashes()) {
    root->done.value = 1;
    crashproof_persist(&root->done, sizeof root->done);
    return 0;
  }
  if (root->created.value) {
    int file = open(argv[1], O_RDWR);
    crashproof_assert(file >= 0);
    return 0;
  }
  int file = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(file >= 0 && !ftruncate(file, 4096));
  struct line *line = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  line->value = 1;
  crashproof_persist(line, sizeof *line);
  root->created.value = 1;
  crashproof_persist(&root->created, sizeof root->created);
  return 0;
}
