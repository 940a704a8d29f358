#include <crashproof.h>
#include <string.h>
#include <immintrin.h>
struct slot { _Alignas(64) long key; _Alignas(64) char val[32]; };
struct table { _Alignas(64) long count; struct slot slots[4]; };
static void persist(const void *p, unsigned long n) {
  for (unsigned long a = (unsigned long)p & ~63ul; a < (unsigned long)p + n; a += 64) _mm_clflush((void *)a);
  _mm_sfence();
}
static void put(struct table *t, long key, const char *val) {
  struct slot *s = &t->slots[t->count];
  s->key = key;
  strncpy(s->val, val, sizeof s->val);
  persist(s, 8);
  t->count++;
  persist(&t->count, sizeof t->count);
}
int main(void) {
  struct table *t = crashproof_root(sizeof *t);
  if (crashproof_crashes()) {
    for (long i = 0; i < t->count; i++) crashproof_assert(t->slots[i].val[0] == 'a' + i);
    return 0;
  }
  put(t, 1, "apple"); put(t, 2, "bear");
  return 0;
}
