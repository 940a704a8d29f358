// Threads count in shards of their own; the sum is published when they are joined.
//@ args: {dir}/count
//@ prove: skip (written for lint; not measured with prove yet)
//@ cflags: -pthread
//@ flags check: --schedules 4
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant shard: -DBUG=1
//@ check: recovery-fails at shard
//@ lint: unflushed-write at shard
//@ variant total: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at total
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct shard {
  uint64_t n;
  uint64_t pad[7];
};
struct counters {
  uint64_t total;
  uint64_t pad[7];
  struct shard shard[2];
};

static struct counters *map_counters(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    return 0;
  if (ftruncate(fd, 4096) < 0) {
    close(fd);
    return 0;
  }
  void *m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return m == MAP_FAILED ? 0 : m;
}

static void save(void *p) {
  _mm_clwb(p);
  _mm_sfence();
}

static void *count(void *arg) {
  struct shard *s = arg;
  for (int i = 0; i < 2; i++) {
    s->n++; // MARK: shard
#if BUG != 1
    save(&s->n);
#endif
  }
  return NULL;
}

int main(int argc, char **argv) {
  struct counters *c = map_counters(argv[1]);
  if (!c)
    return 1;
  assert(c->total <= c->shard[0].n + c->shard[1].n); // MARK: claim
  pthread_t t[2];
  for (int i = 0; i < 2; i++)
    if (pthread_create(&t[i], NULL, count, &c->shard[i]))
      return 1;
  for (int i = 0; i < 2; i++)
    pthread_join(t[i], NULL);
  c->total = c->shard[0].n + c->shard[1].n; // MARK: total
#if BUG != 2
  save(&c->total);
#endif
  return 0;
}
