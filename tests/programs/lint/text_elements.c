// Bytes of a text at a computed place: a flush of the text, or of the record that holds it, covers them all.
//@ variant index: -DHOW=0
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant cursor: -DHOW=1
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant found: -DHOW=2
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant end: -DHOW=3
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant whole: -DHOW=4
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant other: -DHOW=5
//@ check: fails at OTHER
//@ lint: unflushed-write at OTHER
//@ prove: refuted
//@ variant front: -DHOW=6
//@ check: clean
//@ lint: unflushed-write at FRONT
//@ prove: proved
#include <crashproof.h>
#include <string.h>

struct row {
  char key[64], name[128];
  long done;
};

static char place(struct row *r) { return (char)(2 + (r->key[0] == 'k')); }

int main(void) {
  struct row *r = crashproof_root(sizeof *r);
  if (r->done) {
    crashproof_assert(r->name[3] == '!');
    return 0;
  }
  strcpy(r->key, "key");
  crashproof_persist(r->key, sizeof r->key);
#if HOW == 0
  r->name[(int)place(r)] = '!';
  crashproof_persist(r->name, sizeof r->name);
#elif HOW == 1
  char *at = r->name + place(r);
  *at++ = '!';
  *at = 0;
  crashproof_persist(r->name, sizeof r->name);
#elif HOW == 2
  memcpy(r->name, "one one", 8);
  char *space = strchr(r->name, ' ');
  if (space)
    *space = '!';
  crashproof_persist(r->name, sizeof r->name);
#elif HOW == 3
  char *end = stpcpy(r->name, "one");
  end[0] = '!';
  end[1] = 0;
  crashproof_persist(r->name, sizeof r->name);
#elif HOW == 4
  r->name[(int)place(r)] = '!';
  crashproof_persist(r, sizeof *r);
#elif HOW == 5
  r->name[(int)place(r)] = '!'; // MARK: OTHER
  crashproof_persist(r->key, sizeof r->key);
#else
  r->name[(int)place(r)] = '!'; // MARK: FRONT
  crashproof_persist(r->name, 4);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  return 0;
}
