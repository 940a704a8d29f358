// A producer and a consumer with a mutex and a condition; recovery starts them, too, if nothing was done.
//@ args: {dir}/q
//@ lint: skip (written for prove)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant item: -DBUG=1
//@ check: skip (prove replays its counterexample with check)
//@ prove: refuted
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define N 4
struct queue {
  long items[N];
  char pad[64 - (N * 8) % 64];
  long produced;
  char pad2[56];
  long consumed;
};

static struct queue *q;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t nonempty = PTHREAD_COND_INITIALIZER;

static void flush(void *p) {
  _mm_clwb(p);
  _mm_sfence();
}

static void *producer(void *arg) {
  long n = (long)arg;
  for (long i = 0; i < n; i++) {
    pthread_mutex_lock(&lock);
    q->items[q->produced] = 100 + i;
#if BUG != 1
    flush(&q->items[q->produced]);
#endif
    q->produced++;
    flush(&q->produced);
    pthread_cond_signal(&nonempty);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static void *consumer(void *arg) {
  long n = (long)arg;
  for (long i = 0; i < n; i++) {
    pthread_mutex_lock(&lock);
    while (q->consumed == q->produced)
      pthread_cond_wait(&nonempty, &lock);
    long v = q->items[q->consumed];
    assert(v == 100 + q->consumed);
    q->consumed++;
    flush(&q->consumed);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0666);
  if (fd < 0 || ftruncate(fd, sizeof *q)) {
    perror("pool");
    return EXIT_FAILURE;
  }
  q = mmap(NULL, sizeof *q, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (q == MAP_FAILED) {
    perror("mmap");
    return EXIT_FAILURE;
  }
  /* recovery */
  if (q->consumed > q->produced)
    return 10;
  for (long i = 0; i < q->produced; i++)
    if (q->items[i] != 100 + i)
      return 11;
  if (q->produced > 0 || q->consumed > 0)
    return 0;
  pthread_t a, b;
  if (pthread_create(&a, NULL, producer, (void *)2L) || pthread_create(&b, NULL, consumer, (void *)2L))
    return 1;
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  return q->consumed == 2 ? 0 : 12;
}
