// Recovery looks at the records through a private mapping that it only reads, and at their number through a shared one:
// both show what the file holds. A private mapping that was written keeps its own contents.
//@ args: {dir}/pool
//@ lint: skip (which mapping is the file is only known at run time)
//@ prove: skip (prove has no files)
//@ variant flushed: -DFLUSHED
//@ check: clean
//@ variant unflushed: -DUNFLUSHED
//@ check: recovery-fails at record
//@ variant opened: -DOPENED
//@ check: unknown (private)
#include <crashproof.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(fd >= 0 && ftruncate(fd, 16384) == 0);
  long *head = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const long *records = mmap(0, 8192, PROT_READ, MAP_PRIVATE, fd, 8192);
  crashproof_assert(head != MAP_FAILED && records != MAP_FAILED);
  long count = *head;
  for (long i = 0; i < count; i++)
    crashproof_assert(records[i * 16] == i + 1);
  for (; count < 3; count++) {
    long *record = head + 1024 + count * 16;
    *record = count + 1; // MARK: record
#ifndef UNFLUSHED
    crashproof_persist(record, sizeof *record);
#endif
    crashproof_assert(records[count * 16] == count + 1);
    *head = count + 1;
    crashproof_persist(head, sizeof *head);
  }
#ifdef OPENED
  // From here on stores to the view are the process's own.
  crashproof_assert(mprotect((void *)records, 8192, PROT_READ | PROT_WRITE) == 0);
  ((long *)records)[1] = 1;
#endif
  munmap((void *)records, 8192);
  return 0;
}
