// Two threads append to one shared log under a mutex.
//@ args: {dir}/log
//@ prove: skip (written for lint; not measured with prove yet)
//@ cflags: -pthread
//@ flags check: --schedules 4
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant line: -DBUG=1
//@ check: recovery-fails at line
//@ lint: unflushed-write at writer
//@ lint: unflushed-write at line
//@ variant count: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at count
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct line {
  uint64_t writer;
  uint64_t number;
  uint64_t pad[6];
};

struct log {
  uint64_t count;
  uint64_t pad[7];
  struct line lines[16];
};

struct shared {
  struct log *log;
  pthread_mutex_t lock;
};

struct task {
  struct shared *shared;
  uint64_t id;
};

static void flush_line(const void *p) { asm volatile("clflushopt %0" : : "m"(*(const char *)p)); }
static void store_fence(void) { asm volatile("sfence" ::: "memory"); }

static void append(struct shared *s, uint64_t writer, uint64_t number) {
  pthread_mutex_lock(&s->lock);
  struct log *log = s->log;
  struct line *l = log->lines + log->count;
  l->writer = writer; // MARK: writer
  l->number = number; // MARK: line
#if BUG != 1
  flush_line(l);
  store_fence();
#endif
  log->count += 1; // MARK: count
#if BUG != 2
  flush_line(&log->count);
  store_fence();
#endif
  pthread_mutex_unlock(&s->lock);
}

static void *worker(void *arg) {
  struct task *t = arg;
  for (int i = 0; i < 2; i++)
    append(t->shared, t->id, i + 1);
  return NULL;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct log)) < 0)
    return 1;
  struct shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
  s.log = mmap(NULL, sizeof(struct log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (s.log == MAP_FAILED)
    return 1;
  for (uint64_t i = 0; i < s.log->count; i++)
    assert(s.log->lines[i].writer && s.log->lines[i].number);
  if (s.log->count)
    return 0;
  pthread_t threads[2];
  struct task tasks[2];
  for (int i = 0; i < 2; i++) {
    tasks[i] = (struct task){&s, i + 1};
    pthread_create(&threads[i], NULL, worker, &tasks[i]);
  }
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
