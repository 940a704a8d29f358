#include <crashproof.h>
#include <stdatomic.h>
#include <immintrin.h>
#include <string.h>
#define CLWB(p) _mm_clwb(p)
struct ev { _Alignas(64) unsigned seq; unsigned kind; char text[120]; };
struct ring { _Alignas(64) _Atomic unsigned tail; struct ev ev[4]; };
static void emit(struct ring *r, unsigned kind, const char *text) {
  unsigned t = atomic_load(&r->tail);
  struct ev *e = &r->ev[t % 4];
  e->seq = t + 1; e->kind = kind;
  memcpy(e->text, text, strlen(text) + 1);
  CLWB(e);
  _mm_sfence();
  atomic_store_explicit(&r->tail, t + 1, memory_order_release);
  CLWB(&r->tail);
  _mm_sfence();
}
int main(void) {
  struct ring *r = crashproof_root(sizeof *r);
  if (crashproof_crashes()) {
    for (unsigned i = 0; i < r->tail; i++) { crashproof_assert(r->ev[i].seq == i + 1); crashproof_assert(r->ev[i].text[100] == 'z'); }
    return 0;
  }
  char text[121]; memset(text, 'z', 119); text[119] = 0;
  emit(r, 1, text); emit(r, 2, text);
  return 0;
}
