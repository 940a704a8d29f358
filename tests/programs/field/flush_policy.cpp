// Which policy writes back is a template parameter; nodes are reached through a function that casts bytes.
//@ args: {dir}/list
//@ prove: skip (written for lint)
//@ cflags: -std=c++20
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant policy: -DBUG=1
//@ check: recovery-fails at node
//@ lint: unflushed-write at node
//@ lint: unflushed-write at node
#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <immintrin.h>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>
// the policy that flushes is a template parameter; objects are built by placement new
struct Clwb { static void flush(const void *p) { _mm_clwb(const_cast<void *>(p)); } };
struct NoFlush { static void flush(const void *) {} };
template <class P> struct Persister { template <class T> static void persist(const T *t) { auto *c = reinterpret_cast<const char *>(t); for (std::size_t i = 0; i < sizeof(T); i += 64) P::flush(c + i); _mm_sfence(); } };
struct alignas(64) Node { std::uint64_t key; std::uint32_t next; Node(std::uint64_t k, std::uint32_t n) : key(k), next(n) {} }; // MARK: node
struct List { alignas(64) std::uint32_t head; std::uint32_t used; alignas(64) std::byte mem[5 * sizeof(Node)]; Node *at(std::uint32_t i) { return reinterpret_cast<Node *>(mem) + i; } };
#if BUG == 1
using PN = Persister<NoFlush>;
#else
using PN = Persister<Clwb>;
#endif
using P = Persister<Clwb>;
static bool push(List &l, std::uint64_t k) {
  if (l.used + 1 >= 5) return false;
  std::uint32_t i = l.used + 1;
  Node *n = new (l.at(i)) Node(k, l.head);
  PN::persist(n);
  l.used = i;
  P::persist(&l.used);
  l.head = i;
#if BUG != 2
  P::persist(&l.head);
#endif
  return true;
}
int main(int, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(List))) return 1;
  auto *l = static_cast<List *>(mmap(nullptr, sizeof(List), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  if (l == MAP_FAILED) return 1;
  for (std::uint32_t i = l->head; i; i = l->at(i)->next) assert(l->at(i)->key >= 30);
  push(*l, 30); push(*l, 31);
}
