// The way to write back is chosen at start-up and called through a table of functions.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant record: -DBUG=1
//@ lint: unflushed-write at record
//@ variant index: -DBUG=2
//@ lint: unflushed-write at index
//@ variant both: -DBUG=3
//@ lint: unflushed-write at record
//@ lint: unflushed-write at index
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pm_ops {
  const char *name;
  void (*flush)(const void *, size_t);
  void (*drain)(void);
};

static void flush_clwb(const void *p, size_t n) {
  for (uintptr_t a = (uintptr_t)p & ~63ul; a < (uintptr_t)p + n; a += 64)
    _mm_clwb((void *)a);
}
static void flush_clflushopt(const void *p, size_t n) {
  for (uintptr_t a = (uintptr_t)p & ~63ul; a < (uintptr_t)p + n; a += 64)
    _mm_clflushopt((void *)a);
}
static void drain_sfence(void) { _mm_sfence(); }

static const struct pm_ops ops_clwb = {"clwb", flush_clwb, drain_sfence};
static const struct pm_ops ops_opt = {"clflushopt", flush_clflushopt, drain_sfence};
static const struct pm_ops *ops = &ops_opt;

static void pm_persist(const void *p, size_t n) {
  ops->flush(p, n);
  ops->drain();
}

struct record {
  uint64_t id;
  char name[24];
};

struct db {
  uint64_t n;
  char pad[56];
  struct record records[64];
};

typedef int (*visit_fn)(struct record *r, void *arg);

static int db_each(struct db *db, visit_fn fn, void *arg) {
  for (uint64_t i = 0; i < db->n; i++)
    if (fn(&db->records[i], arg))
      return 1;
  return 0;
}

static int upcase(struct record *r, void *arg) {
  (void)arg;
  r->name[0] = 'A'; // MARK: record
#if BUG != 1 && BUG != 3
  pm_persist(r->name, 1);
#endif
  return 0;
}

static int verify(struct record *r, void *arg) {
  uint64_t *next = arg;
  assert(r->id == (*next)++);
  assert(r->name[0] == 'a' || r->name[0] == 'A');
  return 0;
}

static void db_add(struct db *db, const char *name) {
  struct record *r = db->records + db->n;
  r->id = db->n;
  strncpy(r->name, name, sizeof r->name);
  pm_persist(r, sizeof *r);
  db->n += 1; // MARK: index
#if BUG != 2 && BUG != 3
  pm_persist(&db->n, sizeof db->n);
#endif
}

int main(int argc, char **argv) {
  if (getenv("PM_CLWB"))
    ops = &ops_clwb;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct db)))
    return 1;
  struct db *db = mmap(NULL, sizeof *db, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (db == MAP_FAILED)
    return 1;
  uint64_t next = 0;
  db_each(db, verify, &next);
  if (db->n == 0) {
    db_add(db, "alpha");
    db_add(db, "axis");
    db_each(db, upcase, NULL);
  }
  return 0;
}
