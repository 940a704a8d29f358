// Two threads and a lock.
#include "pool.h"
#include <pthread.h>
struct s { long count[2][8]; long done[8]; };
static struct s *s;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *argument) {
  long i = (long)argument;
  pthread_mutex_lock(&lock);
  s->count[i][0] = 5; // MARK
  CORRECT(persist(&s->count[i][0], 8));
  s->done[0]++;
  persist(&s->done[0], 8);
  pthread_mutex_unlock(&lock);
  return 0;
}
int main(void) {
  s = pool(4096);
  long sum = (s->count[0][0] == 5) + (s->count[1][0] == 5);
  assert(s->done[0] <= sum);
  if (s->done[0])
    return 0;
  pthread_t t[2];
  for (long i = 0; i < 2; i++)
    pthread_create(&t[i], 0, work, (void *)i);
  for (long i = 0; i < 2; i++)
    pthread_join(t[i], 0);
}
