/* What the structures of the corpus that map keys to values are put through: each thread inserts its keys, updates
   some, deletes some, and records durably how far it is. After a crash everything up to there must be found, the
   operation under way may be, and the rest is done then. The structure provides map_put, map_get and map_delete. */
#pragma once
#include <pthread.h>

#include "pool.h"

#ifndef THREADS
#define THREADS 1
#endif
#ifndef KEYS
#define KEYS 8 /* of each thread */
#endif
#ifndef KEY_OF
#define KEY_OF(thread, i) ((uint64_t)(thread)*KEYS + (i))
#endif
#ifndef DRIVER_PERSIST
#define DRIVER_PERSIST(start, bytes) persist(start, bytes)
#endif
#define ROUND (KEYS + KEYS / 2 + KEYS / 2)
/* For figures of growth: so many operations, of which those after the round are updates, and recoveries that go on for a
   few of them only. */
#ifdef STEPS
#define OPERATIONS STEPS
#define GOES_ON 4
#else
#define OPERATIONS ROUND
#define GOES_ON OPERATIONS
#endif

static void map_put(uint64_t key, uint64_t value);
static uint64_t map_get(uint64_t key); /* 0: it is not there */
static void map_delete(uint64_t key);

struct progress {
  uint64_t done;
  char apart[LINE - sizeof(uint64_t)];
};

/* Inserts all keys, updates the first half, deletes every second one. */
static inline uint64_t step_index(uint64_t step) {
  if (step > ROUND)
    return step % KEYS + 1;
  if (step <= KEYS)
    return step;
  return step <= KEYS + KEYS / 2 ? step - KEYS : 2 * (step - KEYS - KEYS / 2);
}

static inline uint64_t step_value(uint64_t thread, uint64_t step) {
  return step <= KEYS + KEYS / 2 || step > ROUND ? step * 16 + thread + 1 : 0;
}

static inline uint64_t expected_value(uint64_t thread, uint64_t index, uint64_t done) {
  uint64_t value = 0;
  for (uint64_t step = 1; step <= done; step++)
    if (step_index(step) == index)
      value = step_value(thread, step);
  return value;
}

static inline void driver_verify(const struct progress *progress) {
  for (uint64_t thread = 0; thread < THREADS; thread++) {
    uint64_t done = progress[thread].done;
    for (uint64_t index = 1; index <= KEYS; index++) {
      uint64_t value = map_get(KEY_OF(thread, index));
      VERIFY(value == expected_value(thread, index, done) ||
             (done < OPERATIONS && value == expected_value(thread, index, done + 1)));
    }
  }
}

static inline void driver_work(struct progress *progress, uint64_t thread, uint64_t steps) {
  uint64_t first = progress[thread].done + 1;
  for (uint64_t step = first; step <= OPERATIONS && step < first + steps; step++) {
    uint64_t key = KEY_OF(thread, step_index(step)), value = step_value(thread, step);
    if (value)
      map_put(key, value);
    else
      map_delete(key);
    progress[thread].done = step;
    DRIVER_PERSIST(&progress[thread].done, sizeof progress[thread].done);
  }
}

static struct progress *driver_progress;

static void *driver_thread(void *thread) {
  driver_work(driver_progress, (uintptr_t)thread, OPERATIONS);
  return NULL;
}

/* Recovery finishes the work of all threads alone. */
static inline void driver_run(struct progress *progress, int fresh) {
  driver_progress = progress;
  driver_verify(progress);
  if (fresh && THREADS > 1) {
    pthread_t threads[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++)
      pthread_create(&threads[t], NULL, driver_thread, (void *)t);
    for (int t = 0; t < THREADS; t++)
      pthread_join(threads[t], NULL);
  } else {
    for (uint64_t t = 0; t < THREADS; t++)
      driver_work(progress, t, fresh ? OPERATIONS : GOES_ON);
  }
  driver_verify(progress);
}
