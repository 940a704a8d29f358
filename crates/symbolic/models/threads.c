/*
 * What threads wait for besides locks (barriers, semaphores, initialization done once), their own values, and the threads
 * of C11, which glibc makes of pthreads too. A loop that does nothing but read is waiting.
 */
#define MODEL __attribute__((weak))
typedef unsigned long thread;

void __crashproof_not_modeled(const char *what);
int *__errno_location(void);

/* How many have ever come here: each full set of them may go on. */
struct barrier {
  unsigned arrived, count;
};
MODEL int pthread_barrier_init(struct barrier *barrier, const void *attributes, unsigned count) {
  (void)attributes;
  barrier->arrived = 0;
  barrier->count = count;
  return 0;
}
MODEL int pthread_barrier_wait(struct barrier *barrier) {
  unsigned count = barrier->count;
  unsigned before = __atomic_fetch_add(&barrier->arrived, 1, __ATOMIC_SEQ_CST);
  unsigned all = (before / count + 1) * count;
  while (__atomic_load_n(&barrier->arrived, __ATOMIC_SEQ_CST) < all)
    ;
  return before + 1 == all ? -1 : 0;
}

int __crashproof_semaphore_down(void *semaphore, int waits);
MODEL int sem_init(unsigned *semaphore, int shared, unsigned value) {
  (void)shared;
  *semaphore = value;
  return 0;
}
MODEL int sem_post(unsigned *semaphore) {
  __atomic_fetch_add(semaphore, 1, __ATOMIC_SEQ_CST);
  return 0;
}
MODEL int sem_wait(unsigned *semaphore) { return __crashproof_semaphore_down(semaphore, 1); }
static int try_down(unsigned *semaphore, int error) {
  if (__crashproof_semaphore_down(semaphore, 0) == 0)
    return 0;
  *__errno_location() = error;
  return -1;
}
enum { AGAIN = 11, TIMED_OUT = 110 };
MODEL int sem_trywait(unsigned *semaphore) { return try_down(semaphore, AGAIN); }
MODEL int sem_timedwait(unsigned *semaphore, const void *until) {
  (void)until;
  return try_down(semaphore, TIMED_OUT);
}
MODEL int sem_getvalue(unsigned *semaphore, int *value) {
  *value = (int)__atomic_load_n(semaphore, __ATOMIC_RELAXED);
  return 0;
}

enum { BEGUN = 1, DONE = 2 };
MODEL int pthread_once(int *once, void (*initialize)(void)) {
  int not_yet = 0;
  if (__atomic_compare_exchange_n(once, &not_yet, BEGUN, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    initialize();
    __atomic_store_n(once, DONE, __ATOMIC_RELEASE);
  } else {
    while (__atomic_load_n(once, __ATOMIC_ACQUIRE) != DONE)
      ;
  }
  return 0;
}
MODEL void call_once(int *once, void (*initialize)(void)) { pthread_once(once, initialize); }

/* What threads keep for themselves, by key. */
enum { KEYS = 16 };
static unsigned keys;
static _Thread_local void *kept[KEYS];
MODEL int pthread_key_create(unsigned *key, void (*destroy)(void *)) {
  if (destroy)
    __crashproof_not_modeled("what is called for a thread's own values when it ends");
  *key = __atomic_fetch_add(&keys, 1, __ATOMIC_SEQ_CST);
  if (*key >= KEYS)
    __crashproof_not_modeled("a program with so many keys");
  return 0;
}
MODEL int pthread_key_delete(unsigned key) { return key < KEYS ? 0 : 22; }
MODEL int pthread_setspecific(unsigned key, const void *value) {
  kept[key] = (void *)value;
  return 0;
}
MODEL void *pthread_getspecific(unsigned key) { return kept[key]; }
MODEL int pthread_equal(thread a, thread b) { return a == b; }

int pthread_create(thread *handle, const void *attributes, void *(*start)(void *), void *argument);
int pthread_join(thread handle, void **result);
thread pthread_self(void);
__attribute__((noreturn)) void pthread_exit(void *result);
MODEL int thrd_create(thread *handle, int (*start)(void *), void *argument) {
  return pthread_create(handle, 0, (void *(*)(void *))start, argument);
}
MODEL int thrd_join(thread handle, int *result) {
  if (!result)
    return pthread_join(handle, 0);
  void *word = 0;
  pthread_join(handle, &word);
  *result = (int)(long)word;
  return 0;
}
MODEL thread thrd_current(void) { return pthread_self(); }
MODEL int thrd_equal(thread a, thread b) { return a == b; }
MODEL int thrd_detach(thread handle) {
  (void)handle;
  return 0;
}
MODEL void thrd_yield(void) {}
MODEL __attribute__((noreturn)) void thrd_exit(int result) { pthread_exit((void *)(long)result); }
MODEL int tss_create(unsigned *key, void (*destroy)(void *)) { return pthread_key_create(key, destroy); }
MODEL void tss_delete(unsigned key) { (void)key; }
MODEL int tss_set(unsigned key, void *value) { return pthread_setspecific(key, value); }
MODEL void *tss_get(unsigned key) { return pthread_getspecific(key); }

int pthread_mutex_init(void *lock, const void *attributes);
int pthread_mutex_lock(void *lock);
int pthread_mutex_trylock(void *lock);
int pthread_mutex_unlock(void *lock);
int pthread_cond_wait(void *condition, void *lock);
int pthread_cond_timedwait(void *condition, void *lock, const void *until);
int pthread_mutexattr_settype(void *attributes, int kind);
enum { RECURSIVE = 1, BUSY = 1, TIMEDOUT = 4 };
MODEL int mtx_init(void *lock, int type) {
  if (!(type & RECURSIVE))
    return pthread_mutex_init(lock, 0);
  int attributes = 0;
  pthread_mutexattr_settype(&attributes, RECURSIVE);
  return pthread_mutex_init(lock, &attributes);
}
MODEL void mtx_destroy(void *lock) { (void)lock; }
MODEL int mtx_lock(void *lock) { return pthread_mutex_lock(lock); }
MODEL int mtx_trylock(void *lock) { return pthread_mutex_trylock(lock) ? BUSY : 0; }
MODEL int mtx_timedlock(void *lock, const void *until) {
  (void)until;
  return pthread_mutex_trylock(lock) ? TIMEDOUT : 0;
}
MODEL int mtx_unlock(void *lock) { return pthread_mutex_unlock(lock); }
MODEL int cnd_init(void *condition) { return condition ? 0 : 2; }
MODEL void cnd_destroy(void *condition) { (void)condition; }
MODEL int cnd_signal(void *condition) { return condition ? 0 : 2; }
MODEL int cnd_broadcast(void *condition) { return condition ? 0 : 2; }
MODEL int cnd_wait(void *condition, void *lock) { return pthread_cond_wait(condition, lock); }
MODEL int cnd_timedwait(void *condition, void *lock, const void *until) {
  return pthread_cond_timedwait(condition, lock, until) ? TIMEDOUT : 0;
}
