// Two copies of a configuration; an index says which is current.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant copy: -DBUG=1
//@ lint: unflushed-write at copy
//@ variant active: -DBUG=2
//@ lint: unflushed-write at active
//@ variant little: -DBUG=3
//@ lint: unflushed-write at copy
//@ variant order: -DBUG=4
//@ lint: publish-before-persist at copy
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct config {
  uint64_t version;
  char host[64];
  char user[64];
  uint64_t check;
};

struct store {
  struct config copy[2] __attribute__((aligned(64)));
  uint64_t active __attribute__((aligned(64)));
};

static void pm_flush(const void *p, size_t n) {
  uintptr_t a = (uintptr_t)p;
  uintptr_t e = a + n;
  for (a &= ~63ULL; a < e; a += 64)
    _mm_clwb((void *)a);
}

static void pm_drain(void) { _mm_sfence(); }

static struct store *store_open(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    exit(1);
  if (ftruncate(fd, sizeof(struct store)) < 0)
    exit(1);
  struct store *s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (s == MAP_FAILED)
    exit(1);
  return s;
}

static void save(struct store *s, const struct config *config) {
  uint64_t next = !s->active;
#if BUG == 4
  s->active = next;
  pm_flush(&s->active, sizeof s->active);
  pm_drain();
#endif
  memcpy(&s->copy[next], config, sizeof *config); // MARK: copy
#if BUG == 3
  pm_flush(&s->copy[next], sizeof(struct config *));
  pm_drain();
#elif BUG != 1
  pm_flush(&s->copy[next], sizeof s->copy[next]);
  pm_drain();
#endif
#if BUG != 4
  s->active = next; // MARK: active
#if BUG != 2
  pm_flush(&s->active, sizeof s->active);
  pm_drain();
#endif
#endif
}

int main(int argc, char **argv) {
  struct store *s = store_open(argv[1]);
  const struct config *c = &s->copy[s->active];
  assert(c->version == c->check);
  assert(c->version == 0 || strcmp(c->user, "user") == 0);
  uint64_t version = c->version;
  while (version < 3) {
    struct config next = {.version = ++version, .host = "host", .user = "user", .check = version};
    save(s, &next);
  }
  return 0;
}
