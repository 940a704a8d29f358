// Following a pointer that was never set leads anywhere.
//@ check: fails-without-crash at claim
//@ lint: vacuous
//@ prove: refuted at claim (outside)
#include <crashproof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
struct node {
  struct node *_Atomic next;
};
static struct node *_Atomic shared;
static void *reader(void *unused) {
  struct node *seen = shared;
  if (seen && seen->next)
    seen->next->next = 0; // MARK: claim
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, reader, 0);
  shared = malloc(sizeof(struct node));
  pthread_join(thread, 0);
  return 0;
}
void recover(void) {}
