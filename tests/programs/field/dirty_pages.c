// Flags in volatile memory say which pages the next sync writes back, line by line in an inner loop.
//@ args: {dir}/db
//@ prove: skip (written for lint)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean (known wrong: which pages are dirty is in a variable)
//@ variant epoch: -DBUG=2
//@ check: missing-flush at epoch
//@ lint: unflushed-write at epoch
//@ lint: unflushed-write at page
//@ lint: flush-unmodified at flush
#include <fcntl.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define NP 4
#define PSZ 128
struct db { uint64_t epoch; uint64_t pad[7]; uint8_t page[NP][PSZ]; };
static struct db *db;
static bool dirty[NP];
static void write_page(int n, int off, uint8_t v) {
  db->page[n][off] = v; // MARK: page
#if BUG != 1
  dirty[n] = true;
#endif
}
static void sync_all(void) {
  for (int n = 0; n < NP; n++) {
    if (!dirty[n]) continue;
    for (int o = 0; o < PSZ; o += 64) _mm_clwb(&db->page[n][o]); // MARK: flush
    dirty[n] = false;
  }
  _mm_sfence();
  db->epoch++; // MARK: epoch
#if BUG != 2
  _mm_clwb(&db->epoch);
  _mm_sfence();
#endif
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *db)) return 1;
  db = mmap(0, sizeof *db, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (db == MAP_FAILED) return 1;
  for (int n = 0; n < NP; n++)
    if (db->page[n][0] < db->epoch) abort();
  for (int r = 0; r < 2; r++) {
    uint8_t v = db->epoch + 1;
    for (int n = 0; n < NP; n++) write_page(n, 0, v);
    write_page(2, 100, v);
    sync_all();
  }
  return 0;
}
