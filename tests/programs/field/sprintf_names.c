// Names are formatted straight into persistent memory.
//@ args: {dir}/names
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant name: -DBUG=1
//@ check: recovery-fails at name
//@ lint: unflushed-write at name
//@ variant flag: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at flag
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT 4
struct entry {
  char name[60];
  int valid;
};
_Static_assert(sizeof(struct entry) == 64, "one line");

struct dir {
  struct entry names[COUNT];
  int flags[COUNT] __attribute__((aligned(64)));
};

#define persist_obj(ptr)                                                                                     \
  do {                                                                                                       \
    for (size_t o_ = 0; o_ < sizeof *(ptr); o_ += 64)                                                        \
      _mm_clwb((char *)(ptr) + o_);                                                                          \
    _mm_sfence();                                                                                            \
  } while (0)

static int add(struct dir *d, int i) {
  struct entry *e = d->names + i;
  int n = snprintf(e->name, sizeof e->name, "file-%d", i); // MARK: name
  if (n < 0)
    return -1;
#if BUG != 1
  persist_obj(e);
#endif
  d->flags[i] = 1; // MARK: flag
#if BUG != 2
  persist_obj(&d->flags[i]);
#endif
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct dir)))
    return 1;
  struct dir *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (d == MAP_FAILED)
    return 1;
  for (int i = 0; i < COUNT; i++)
    if (d->flags[i]) {
      char want[60];
      snprintf(want, sizeof want, "file-%d", i);
      assert(strcmp(d->names[i].name, want) == 0);
    }
  for (int i = 0; i < COUNT; i++)
    if (!d->flags[i] && add(d, i))
      return 1;
  return 0;
}
