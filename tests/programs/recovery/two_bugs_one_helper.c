// Two functions lose the same store of a helper first, and each forgets a flush of its own: two bugs.
//@ lint: skip (flushes behind pointers are seen elsewhere)
//@ prove: skip (two findings of check)
//@ check: recovery-fails at first
//@ check: recovery-fails at second
#include <crashproof.h>

struct record {
  _Alignas(64) long data;
  _Alignas(64) long valid;
};

struct root {
  _Alignas(64) long owner;
  struct record first, second;
};

static void lock(struct root *r) { r->owner = 1; }

static void put_first(struct root *r) {
  lock(r);
  r->first.data = 7; // MARK: first
  r->first.valid = 1;
  crashproof_persist(&r->first.valid, sizeof r->first.valid);
}

static void put_second(struct root *r) {
  lock(r);
  r->second.data = 8; // MARK: second
  r->second.valid = 1;
  crashproof_persist(&r->second.valid, sizeof r->second.valid);
}

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (crashproof_crashes()) {
    if (r->first.valid && r->first.data != 7)
      return 1 + (int)(r->owner & 0);
    if (r->second.valid && r->second.data != 8)
      return 1 + (int)(r->owner & 0);
    return 0;
  }
  put_first(r);
  put_second(r);
  return 0;
}
