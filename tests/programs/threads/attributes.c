// Attributes of threads are objects that the C library writes; what it writes there concerns nobody.
//@ check: clean
//@ lint: clean
//@ prove: proved
#include <crashproof.h>
#include <pthread.h>
#include <assert.h>
struct d { long a __attribute__((aligned(64))); long b __attribute__((aligned(64))); };
PERSISTENT static struct d d;
static void *w(void *x) { d.a = 1; crashproof_persist(&d.a, 8); d.b = 1; crashproof_persist(&d.b, 8); return x; }
int main(void) {
  if (crashproof_crashes()) { assert(!d.b || d.a); return 0; }
  pthread_attr_t at; pthread_attr_init(&at); pthread_attr_setstacksize(&at, 1 << 20);
  pthread_t t; pthread_create(&t, &at, w, 0); pthread_join(t, 0); pthread_attr_destroy(&at);
  return 0;
}
