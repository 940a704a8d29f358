// Rows of two versions each, of which one counts; the helper that flushes returns an error for a null pointer, which the callers
// pass on. A pointer that was stored through is not null.
//@ args: {dir}/rows
//@ cflags: -mclwb
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant version: -DVERSION_UNFLUSHED
//@ check: recovery-fails at a
//@ check: recovery-fails at b
//@ lint: unflushed-write at a
//@ lint: unflushed-write at b
//@ prove: refuted at claim
//@ variant first-line: -DFIRST_LINE
//@ check: recovery-fails at b
//@ lint: unflushed-write at b
//@ prove: refuted at claim
//@ variant selected: -DSELECTED_UNFLUSHED
//@ check: missing-flush at selected
//@ lint: unflushed-write at selected
//@ prove: proved
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct version {
  int32_t a;
  int32_t apart[15];
  int32_t b;
  int32_t behind[15];
};

struct row {
  uint32_t selected; /* 0 is none, otherwise the number of a version */
  uint32_t apart[15];
  struct version v[2];
};

struct table {
  struct row *rows;
  int fd;
};

static int sync_lines(const void *p, size_t n) {
  if (p == NULL)
    return -1;
  for (size_t i = 0; i < n; i += 64)
    _mm_clwb((char *)p + i);
  _mm_sfence();
  return 0;
}

static struct table *table_open(const char *path) {
  struct table *t = malloc(sizeof *t);
  if (!t)
    return NULL;
  t->fd = open(path, O_RDWR | O_CREAT, 0644);
  if (t->fd < 0)
    goto fail;
  if (ftruncate(t->fd, 4 * sizeof(struct row)) < 0)
    goto close;
  t->rows = mmap(NULL, 4 * sizeof(struct row), PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
  if (t->rows != MAP_FAILED)
    return t;
close:
  close(t->fd);
fail:
  free(t);
  return NULL;
}

static int table_put(struct table *t, uint32_t row, int32_t a) {
  if (row >= 4)
    return -1;
  struct row *r = &t->rows[row];
  uint32_t next = r->selected == 1 ? 2 : 1;
  struct version *v = &r->v[next - 1];
  v->a = a;  // MARK: a
  v->b = -a; // MARK: b
#ifdef FIRST_LINE
  if (sync_lines(v, sizeof v->a) < 0)
    return -1;
#elif !defined VERSION_UNFLUSHED
  if (sync_lines(v, sizeof *v) < 0)
    return -1;
#endif
  r->selected = next; // MARK: selected
#ifdef SELECTED_UNFLUSHED
  return 0;
#else
  return sync_lines(&r->selected, sizeof r->selected);
#endif
}

int main(int argc, char **argv) {
  struct table *t = table_open(argv[1]);
  if (!t)
    return 1;
  for (int i = 0; i < 4; i++) {
    const struct row *r = &t->rows[i];
    if (r->selected)
      assert(r->v[r->selected - 1].a + r->v[r->selected - 1].b == 0); // MARK: claim
  }
  for (uint32_t i = 0; i < 2; i++)
    if (table_put(t, i, (int32_t)i + 1) < 0)
      return 1;
  table_put(t, 1, 9);
  return 0;
}
