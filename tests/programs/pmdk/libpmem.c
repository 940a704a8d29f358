// A log in a file, with libpmem: an entry counts once it is whole.
//@ flags prove: --unwind 8
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <libpmem.h>
#include <string.h>
struct log {
  long length;
  char text[56];
  char more[64];
};
static struct log *map(void) {
  return pmem_map_file("log", sizeof(struct log), PMEM_FILE_CREATE, 0644, 0, 0);
}
int main(void) {
  struct log *log = map();
  pmem_memcpy_persist(log->more, "entry 1.", 8);
  log->length = 8;
  pmem_persist(&log->length, sizeof log->length);
  return 0;
}
void recover(void) {
  struct log *log = map();
  if (log->length)
    crashproof_assert(memcmp(log->more, "entry 1.", 8) == 0);
}
