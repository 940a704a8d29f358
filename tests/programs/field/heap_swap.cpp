// A heap of jobs; one swap at a time has an undo record. The flush helper subtracts the rest of a division from a pointer.
//@ args: {dir}/heap
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant on: -DBUG_on
//@ check: recovery-fails at swap
//@ check: recovery-fails at on
//@ lint: fails at on
//@ prove: refuted at claim
//@ variant swap: -DBUG_swap
//@ check: fails at swap
//@ lint: fails at swap
//@ prove: refuted at claim
//@ variant job: -DBUG_job
//@ check: fails at job
//@ lint: fails at job
//@ prove: refuted at claim
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>
// priority queue with an undo record of one swap
struct Job { std::uint32_t prio; std::uint32_t id; };
struct Swap { std::uint32_t i, j; Job a, b; std::uint32_t on; std::uint32_t pad[9]; };
static_assert(sizeof(Swap) == 64);
struct Heap { Swap undo; std::uint32_t n; std::uint32_t pad[15]; Job jobs[24]; };
struct Persist { template <class T> void operator()(const T &t) const {
  auto a = reinterpret_cast<const char *>(&t), e = a + sizeof t;
  for (a -= reinterpret_cast<std::uintptr_t>(a) % 64; a < e; a += 64) _mm_clwb(const_cast<char *>(a));
  _mm_sfence(); } } persist;
static void swap_jobs(Heap &h, std::uint32_t i, std::uint32_t j) {
  h.undo.i = i; h.undo.j = j; h.undo.a = h.jobs[i]; h.undo.b = h.jobs[j];
  persist(h.undo);
  h.undo.on = 1; // MARK: on
#ifndef BUG_on
  persist(h.undo.on);
#endif
  std::swap(h.jobs[i], h.jobs[j]); // MARK: swap
#ifndef BUG_swap
  persist(h.jobs[i]);
  persist(h.jobs[j]);
#endif
  h.undo.on = 0;
  persist(h.undo.on);
}
static void push(Heap &h, Job j) {
  std::uint32_t k = h.n;
  h.jobs[k] = j; // MARK: job
#ifndef BUG_job
  persist(h.jobs[k]);
#endif
  h.n = k + 1;
  persist(h.n);
  while (k && h.jobs[(k - 1) / 2].prio < h.jobs[k].prio) { swap_jobs(h, k, (k - 1) / 2); k = (k - 1) / 2; }
}
int main(int, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Heap))) return 1;
  Heap *h = static_cast<Heap *>(mmap(nullptr, sizeof(Heap), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  if (h == MAP_FAILED) return 1;
  if (h->undo.on) {
    h->jobs[h->undo.i] = h->undo.a; h->jobs[h->undo.j] = h->undo.b;
    persist(h->jobs[h->undo.i]); persist(h->jobs[h->undo.j]);
    h->undo.on = 0; persist(h->undo.on);
  }
  std::uint32_t ids = 0;
  for (std::uint32_t i = 0; i < h->n; i++) { assert(h->jobs[i].id && !(ids >> h->jobs[i].id & 1)); ids |= 1u << h->jobs[i].id; } // MARK: claim
  if (h->n == 0) for (std::uint32_t i = 1; i <= 11; i++) push(*h, Job{ i == 11 ? 50u : 20 - i, i });
}
