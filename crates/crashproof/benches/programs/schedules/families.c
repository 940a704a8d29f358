// The classic families of partial-order reduction, on atomics in volatile memory: -DFAMILY=name -DTHREADS=n.
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
#define RELAXED memory_order_relaxed

PERSISTENT long result;
_Atomic long x, array[16];
_Atomic int table[128];
static pthread_mutex_t inodes[32], blocks[26];
static int inode[32], busy[26];

// n threads write one variable: n! traces.
static void *writers(void *i) {
  atomic_store_explicit(&x, (long)i, RELAXED);
  return 0;
}

// n - 1 threads read what one writes: 2^(n - 1).
static void *readers(void *i) {
  if (i)
    return (void *)atomic_load_explicit(&x, RELAXED);
  atomic_store_explicit(&x, 1, RELAXED);
  return 0;
}

// Abdulla et al., POPL 2014: with m = n - 1 writers, (m + 3) 2^(m - 2).
static void *lastzero(void *number) {
  long i = (long)number, n = THREADS - 1;
  if (i == 0) {
    long at = n;
    while (at > 0 && atomic_load_explicit(&array[at], RELAXED))
      at--;
    if (at == 0)
      (void)atomic_load_explicit(&array[0], RELAXED);
  } else {
    long before = atomic_load_explicit(&array[i - 1], RELAXED);
    atomic_store_explicit(&array[i], before + 1, RELAXED);
  }
  return 0;
}

// Flanagan and Godefroid, POPL 2005: 8^(n - 11) from 11 threads on.
static void *indexer(void *number) {
  int thread = (int)(long)number;
  for (int m = 1; m <= 4; m++) {
    int message = m * 11 + thread, hash = message * 7 % 128, empty = 0;
    while (!atomic_compare_exchange_strong(&table[hash], &empty, message)) {
      hash = (hash + 1) % 128;
      empty = 0;
    }
  }
  return 0;
}

// The same authors': 2^(n - 13) from 13 threads on.
static void *file_system(void *number) {
  int i = (int)(long)number % 32;
  pthread_mutex_lock(&inodes[i]);
  if (inode[i] == 0)
    for (int b = i * 2 % 26;; b = (b + 1) % 26) {
      pthread_mutex_lock(&blocks[b]);
      int found = !busy[b];
      if (found) {
        busy[b] = 1;
        inode[i] = b + 1;
      }
      pthread_mutex_unlock(&blocks[b]);
      if (found)
        break;
    }
  pthread_mutex_unlock(&inodes[i]);
  return 0;
}

// Two threads store and read what the other stores: about 50 events, drains included.
static void *pairs(void *number) {
  for (int i = 0; i < 6; i++) {
    atomic_store_explicit(&array[(long)number * 8 + i], 1, RELAXED);
    if (i < 4)
      (void)atomic_load_explicit(&array[(1 - (long)number) * 8 + i], RELAXED);
  }
  return 0;
}

int main(void) {
  (void)writers, (void)readers, (void)lastzero, (void)indexer, (void)file_system, (void)pairs;
  if (crashproof_crashes())
    return result > 1;
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++)
    pthread_create(&threads[i], 0, FAMILY, (void *)i);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], 0);
  result = 1;
  crashproof_persist(&result, sizeof result);
  return 0;
}
