// A number of bits is not negative: the path on which an allocation "fails" after it has set a bit does not exist.
//@ variant counted:
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant masked: -DMASKED
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant lost: -DLOST
//@ check: clean
//@ lint: unflushed-write at BITMAP
//@ prove: proved
#include <crashproof.h>
#include <stdint.h>
#include <string.h>

struct pool {
  uint64_t bitmap, root;
  _Alignas(64) char cells[64][64];
};

static int take(struct pool *p) {
  if (p->bitmap == ~0ull)
    return -1;
#ifdef MASKED
  int cell = (int)(p->bitmap * 7 & 63);
#else
  int cell = __builtin_ctzll(~p->bitmap);
#endif
  p->bitmap |= 1ull << cell; // MARK: BITMAP
  return cell;
}

static int add(struct pool *p, const char *text) {
  int cell = take(p);
  if (cell < 0)
    return -1;
  strncpy(p->cells[cell], text, sizeof p->cells[cell]);
  crashproof_persist(p->cells[cell], sizeof p->cells[cell]);
#ifndef LOST
  crashproof_persist(&p->bitmap, sizeof p->bitmap);
#endif
  return cell;
}

int main(void) {
  struct pool *p = crashproof_root(sizeof *p);
  return add(p, "first") < 0 || add(p, "second") < 0;
}
