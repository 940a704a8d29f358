// Seats are moved in place under an undo log whose length is counted up in a helper, in four bytes.
//@ args: {dir}/hall
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant length: -DBUG=2
//@ check: recovery-fails at length
//@ lint: unflushed-write at length
//@ prove: refuted at claim
#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <immintrin.h>
#define CL 64
#define SEATS 16
struct undo { uint32_t index; uint32_t old; };
struct hall {
  _Alignas(CL) uint32_t nundo;
  _Alignas(CL) struct undo log[4];
  _Alignas(CL) uint32_t seat[SEATS];
};
static void persist_range(void *start, size_t len) {
  char *c = (char *)((uintptr_t)start & ~(uintptr_t)(CL - 1));
  for (; c < (char *)start + len; c += CL) _mm_clwb(c);
  _mm_sfence();
}
static void log_seat(struct hall *h, uint32_t i) {
  struct undo *u = &h->log[h->nundo];
  u->index = i;
  u->old = h->seat[i];
#if BUG != 1
  persist_range(u, sizeof *u);
#endif
  h->nundo++; // MARK: length
#if BUG != 2
  persist_range(&h->nundo, sizeof h->nundo);
#endif
}
static void set_seat(struct hall *h, uint32_t i, uint32_t who) {
  h->seat[i] = who;
#if BUG != 3
  persist_range(&h->seat[i], sizeof h->seat[i]);
#endif
}
static void rollback(struct hall *h) {
  for (uint32_t k = h->nundo; k > 0; k--) {
    h->seat[h->log[k - 1].index] = h->log[k - 1].old;
#if BUG != 4
    persist_range(&h->seat[h->log[k - 1].index], 4);
#endif
  }
  h->nundo = 0;
  persist_range(&h->nundo, 4);
}
static bool move(struct hall *h, uint32_t a, uint32_t b) {
  if (h->seat[b] || !h->seat[a]) return false;
  log_seat(h, a);
  log_seat(h, b);
  uint32_t who = h->seat[a];
  set_seat(h, a, 0);
  set_seat(h, b, who);
  h->nundo = 0;
  persist_range(&h->nundo, sizeof h->nundo);
  return true;
}
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  struct stat sb;
  if (fd < 0 || fstat(fd, &sb)) return 1;
  bool fresh = sb.st_size == 0;
  if (fresh && ftruncate(fd, 4096)) return 1;
  struct hall *h = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (h == MAP_FAILED) return 1;
  if (h->nundo) rollback(h);
  int taken = 0;
  for (int i = 0; i < SEATS; i++) if (h->seat[i]) { assert(h->seat[i] == 77); taken++; }
  assert(taken <= 1); // MARK: claim
  if (!taken) { set_seat(h, 3, 77); }
  assert(h->seat[3] || h->seat[9]);
  move(h, 3, 9);
  return 0;
}
