// Functions that return -errno have failed: the path on which the pool is mapped is the other one.
//@ args: {dir}/rows
//@ prove: skip (written for lint)
//@ variant right: -DRIGHT
//@ check: clean
//@ lint: clean
//@ variant version: -DBUG_VERSION
//@ check: recovery-fails at version
//@ lint: unflushed-write at version
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct row {
  uint64_t version;
  uint64_t pad[7];
  uint64_t valid;
  uint64_t more[7];
};
struct table {
  struct row rows[4];
};
struct db {
  struct table *table;
  int fd;
};
static void persist(const void *p, size_t n) {
  for (uintptr_t line = (uintptr_t)p & ~63ul; line < (uintptr_t)p + n; line += 64) _mm_clwb((void *)line);
  _mm_sfence();
}
static int db_open(const char *path, struct db **out) {
  struct db *db = calloc(1, sizeof *db);
  if (!db) return -ENOMEM;
  db->fd = open(path, O_CREAT | O_RDWR, 0640);
  if (db->fd < 0) {
    free(db);
    return -errno;
  }
  if (ftruncate(db->fd, sizeof(struct table))) return -errno;
  void *mapped = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, db->fd, 0);
  if (mapped == MAP_FAILED) return -errno;
  db->table = mapped;
  *out = db;
  return 0;
}
int main(int argc, char **argv) {
  struct db *db;
  int rc = db_open(argc > 1 ? argv[1] : "rows", &db);
  if (rc) {
    fprintf(stderr, "%s\n", strerror(-rc));
    return 1;
  }
  for (int i = 0; i < 4; i++)
    if (db->table->rows[i].valid) assert(db->table->rows[i].version == 7);
  db->table->rows[1].version = 7; // MARK: version
#ifndef BUG_VERSION
  persist(&db->table->rows[1].version, sizeof(uint64_t));
#endif
  db->table->rows[1].valid = 1;
  persist(&db->table->rows[1].valid, sizeof(uint64_t));
  return 0;
}
