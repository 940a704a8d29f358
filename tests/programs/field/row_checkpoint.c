// Rows of a matrix are saved before the counter that says how many are done.
//@ args: {dir}/rows
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant row: -DBUG_row
//@ check: fails at row
//@ lint: fails at row
//@ prove: refuted at claim
//@ variant tail: -DBUG_tail
//@ check: fails at row
//@ lint: fails at row
//@ prove: refuted at claim
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
/* checkpointed computation: rows are written, then the progress counter */
#define ROWS 4
#define COLS 12
struct ckpt { uint64_t done; uint64_t unused[7]; double m[ROWS][COLS]; };
static struct ckpt *open_ckpt(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0644);
  if (fd < 0) return NULL;
  if (ftruncate(fd, sizeof(struct ckpt))) { close(fd); return NULL; }
  void *p = mmap(NULL, sizeof(struct ckpt), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return p == MAP_FAILED ? NULL : p;
}
static void compute_row(double *row, int r) {
  for (int c = 0; c < COLS; c++) row[c] = r * 100 + c; // MARK: row
}
static void save_row(double *row) {
#ifdef BUG_tail
  for (int c = 0; c < COLS - 8; c += 8) _mm_clwb(&row[c]);
#else
  for (int c = 0; c < COLS; c += 8) _mm_clwb(&row[c]);
  _mm_clwb(&row[COLS - 1]);
#endif
  _mm_sfence();
}
int main(int argc, char **argv) {
  struct ckpt *k = open_ckpt(argv[1]);
  if (!k) { fprintf(stderr, "cannot open %s\n", argv[1]); return 1; }
  for (uint64_t r = 0; r < k->done; r++) for (int c = 0; c < COLS; c++) assert(k->m[r][c] == r * 100 + c); // MARK: claim
  for (uint64_t r = k->done; r < ROWS; r++) {
    compute_row(k->m[r], (int)r);
#ifndef BUG_row
    save_row(k->m[r]);
#endif
    k->done = r + 1;
    _mm_clwb(&k->done);
    _mm_sfence();
  }
  return 0;
}
