// A semaphore hands slots over, an initialization is done once, each thread keeps a value of its own.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
PERSISTENT int slots[2] __attribute__((aligned(64)));
PERSISTENT int taken __attribute__((aligned(64)));
static sem_t full;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int made;
static void make(void) {
  made++;
  pthread_key_create(&key, 0);
}
static void *produce(void *unused) {
  pthread_once(&once, make);
  pthread_setspecific(key, &slots[1]);
  for (int i = 0; i < 2; i++) {
    slots[i] = i + 1;
    crashproof_persist(&slots[i], sizeof slots[i]);
    sem_post(&full);
  }
  crashproof_assert(pthread_getspecific(key) == &slots[1]);
  return unused;
}
int main(void) {
  sem_init(&full, 0, 0);
  pthread_t thread;
  pthread_create(&thread, 0, produce, 0);
  pthread_once(&once, make);
  pthread_setspecific(key, &slots[0]);
  for (int i = 0; i < 2; i++) {
    sem_wait(&full);
    taken = slots[i]; // MARK: unflushed-write
  }
  crashproof_assert(sem_trywait(&full) == -1 && errno == EAGAIN);
  crashproof_assert(made == 1 && pthread_getspecific(key) == &slots[0]);
  pthread_join(thread, 0);
  return 0;
}
void recover(void) {
  for (int i = 0; i < taken; i++)
    crashproof_assert(slots[i] == i + 1);
}
