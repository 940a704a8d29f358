#include <crashproof.h>
#include <pthread.h>

static pthread_mutex_t from = PTHREAD_MUTEX_INITIALIZER, to = PTHREAD_MUTEX_INITIALIZER;
PERSISTENT long balance[2];

static void move(long amount) {
  balance[0] -= amount;
  balance[1] += amount;
  crashproof_persist(balance, sizeof balance);
}

static void *there(void *unused) {
  pthread_mutex_lock(&from);
  pthread_mutex_lock(&to);
  move(1);
  pthread_mutex_unlock(&to);
  pthread_mutex_unlock(&from);
  return unused;
}

static void *back(void *unused) {
  pthread_mutex_lock(&from);
  pthread_mutex_lock(&to);
  move(-1);
  pthread_mutex_unlock(&to);
  pthread_mutex_unlock(&from);
  return unused;
}

int main(void) {
  if (crashproof_crashes())
    return 0;
  pthread_t one, two;
  pthread_create(&one, 0, there, 0);
  pthread_create(&two, 0, back, 0);
  pthread_join(one, 0);
  pthread_join(two, 0);
  return 0;
}
