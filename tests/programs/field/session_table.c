// A table of structures with setters, a dirty list and one commit that writes everything back.
//@ args: {dir}/sessions
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: unknown (this flush may write back any PM)
//@ variant dirty: -DBUG=1
//@ check: recovery-fails at user
//@ lint: unflushed-write at user
//@ lint: unknown (this flush may write back any PM)
//@ variant commit: -DBUG=2
//@ check: recovery-fails at expires
//@ check: missing-flush at live
//@ lint: publish-before-persist at expires (known wrong: the list of addresses to flush may hold anything)
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct session {
  uint64_t user;
  uint64_t pad0[7];
  uint64_t expires;
  uint64_t pad1[7];
  uint64_t live;
  uint64_t pad2[7];
};

struct sessions {
  struct session s[2];
};

static struct {
  void *at[8];
  int n;
} dirty;

static void touch(void *p) {
  if (dirty.n == 8)
    abort();
  dirty.at[dirty.n++] = p;
}

static void commit(void) {
  for (int i = 0; i < dirty.n; i++)
    _mm_clwb(dirty.at[i]);
  dirty.n = 0;
#if BUG != 2
  _mm_sfence();
#endif
}

static void set_user(struct session *s, uint64_t user) {
  s->user = user; // MARK: user
#if BUG != 1
  touch(&s->user);
#endif
}

static void set_expires(struct session *s, uint64_t when) {
  s->expires = when; // MARK: expires
  touch(&s->expires);
}

static void set_live(struct session *s, int live) {
  s->live = live; // MARK: live
  touch(&s->live);
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(struct sessions)))
    return 1;
  struct sessions *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (t == MAP_FAILED)
    return 1;
  for (int i = 0; i < 2; i++)
    if (t->s[i].live) {
      assert(t->s[i].user == 1000); // MARK: claim
      assert(t->s[i].expires > 5); // MARK: expiry
    }
  for (int i = 0; i < 2; i++)
    if (!t->s[i].live) {
      set_user(&t->s[i], 1000);
      set_expires(&t->s[i], 10 + i);
      commit();
      set_live(&t->s[i], 1);
      commit();
    }
  _mm_sfence();
  return 0;
}
