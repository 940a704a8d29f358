// Structures on the first thread's stack, results of threads, thread-local variables, function pointers.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
PERSISTENT long sum __attribute__((aligned(64)));
static _Thread_local long mine = 5;
struct job {
  long (*f)(long);
  long input, output;
};
static long twice(long x) { return 2 * x; }
static long thrice(long x) { return 3 * x; }
static void *work(void *argument) {
  struct job *job = argument;
  mine += job->input;
  job->output = job->f(mine);
  return (void *)job->output;
}
int main(void) {
  struct job jobs[2] = {{twice, 1, 0}, {thrice, 2, 0}};
  pthread_t threads[2];
  void *result[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], 0, work, &jobs[i]);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], &result[i]);
  crashproof_assert(jobs[0].output == 12 && jobs[1].output == 21 && mine == 5);
  crashproof_assert((long)result[0] == 12 && (long)result[1] == 21);
  sum = jobs[0].output + jobs[1].output; // MARK: unflushed-write
  return 0;
}
void recover(void) { crashproof_assert(sum == 0 || sum == 33); }
