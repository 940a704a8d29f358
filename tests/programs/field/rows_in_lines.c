// A table is written row by row; an inner loop writes back the lines of each row, and each row has lines of its own.
//@ args: {dir}/rows
//@ prove: skip (written for lint)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant short: -DBUG=1
//@ check: recovery-fails at cell
//@ lint: unflushed-write at cell
//@ lint: split-update at cell
//@ variant rows: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at rows
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* a table is written row by row, each row flushed in an inner loop */
#define R 3
#define C 24
struct m { uint64_t rows; uint64_t pad[7]; uint64_t v[R][C]; };
static struct m *m;
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *m)) return 1;
  m = mmap(0, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (m == MAP_FAILED) return 1;
  for (uint64_t r = 0; r < m->rows; r++) for (int c = 0; c < C; c++) assert(m->v[r][c] == r * 100 + c + 1);
  for (uint64_t r = m->rows; r < R; r++) {
    for (int c = 0; c < C; c++) m->v[r][c] = r * 100 + c + 1; // MARK: cell
#if BUG == 1
    for (int c = 0; c < C / 2; c += 8) _mm_clwb(&m->v[r][c]);
#else
    for (int c = 0; c < C; c += 8) _mm_clwb(&m->v[r][c]);
#endif
    _mm_sfence();
    m->rows = r + 1; // MARK: rows
#if BUG != 2
    _mm_clwb(&m->rows);
    _mm_sfence();
#endif
  }
  return 0;
}
