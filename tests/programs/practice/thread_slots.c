// Threads count in slots of their own and publish a total under a lock.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: split-update at slot
//@ variant slot: -DBUG=1
//@ lint: unflushed-write at slot
//@ variant total: -DBUG=2
//@ lint: unflushed-write at total
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 2

struct slot {
  uint64_t done;
  char pad[56];
};

struct shared {
  uint64_t total;
  char pad[56];
  struct slot slots[THREADS];
};

struct job {
  struct shared *shared;
  int number;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static inline void pwb(void *p) { _mm_clflushopt(p); }
static inline void pfence(void) { _mm_sfence(); }

static void *work(void *argument) {
  struct job *job = argument;
  struct slot *mine = &job->shared->slots[job->number];
  while (mine->done < 2) {
    mine->done++; // MARK: slot
#if BUG != 1
    pwb(&mine->done);
    pfence();
#endif
    pthread_mutex_lock(&lock);
    job->shared->total++; // MARK: total
#if BUG != 2
    pwb(&job->shared->total);
    pfence();
#endif
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static struct shared *map_shared(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    return NULL;
  if (ftruncate(fd, 4096) < 0)
    return NULL;
  struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return s == MAP_FAILED ? NULL : s;
}

int main(int argc, char **argv) {
  struct shared *s = map_shared(argv[1]);
  if (!s)
    return 1;
  uint64_t sum = 0;
  for (int i = 0; i < THREADS; i++)
    sum += s->slots[i].done;
  assert(s->total <= sum);
  assert(sum <= s->total + THREADS);
  pthread_t threads[THREADS];
  struct job jobs[THREADS];
  for (int i = 0; i < THREADS; i++) {
    jobs[i].shared = s;
    jobs[i].number = i;
    pthread_create(&threads[i], NULL, work, &jobs[i]);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
