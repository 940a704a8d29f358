// A configuration in two copies; the lowest bit of a sequence number says which one counts.
//@ args: {dir}/config
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant copy: -DBUG_copy
//@ check: fails at copy
//@ lint: fails at copy
//@ prove: refuted
//@ variant fence: -DBUG_fence
//@ check: fails at copy
//@ lint: fails at copy
//@ prove: refuted
//@ variant seq: -DBUG_seq
//@ check: clean
//@ lint: unflushed-write at seq
//@ prove: proved
#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>
struct Config { std::uint32_t width, height; char title[100]; };
struct Page {
  std::atomic<std::uint64_t> seq;
  Config a;
  Config b;
};
class ConfigStore {
  Page *p;
  static void wb(const void *x, std::size_t n) {
    for (auto i = reinterpret_cast<std::uintptr_t>(x) & ~std::uintptr_t(63); i < reinterpret_cast<std::uintptr_t>(x) + n; i += 64)
      _mm_clwb(reinterpret_cast<void *>(i));
  }
public:
  explicit ConfigStore(void *mem) : p(static_cast<Page *>(mem)) {}
  const Config &current() const { return p->seq.load() & 1 ? p->b : p->a; }
  void update(const Config &c) {
    std::uint64_t s = p->seq.load(std::memory_order_relaxed);
    Config &dst = s & 1 ? p->a : p->b;
    std::memcpy(&dst, &c, sizeof c); // MARK: copy
#ifndef BUG_copy
    wb(&dst, sizeof dst);
#endif
#ifndef BUG_fence
    _mm_sfence();
#endif
    p->seq.store(s + 1, std::memory_order_relaxed); // MARK: seq
#ifndef BUG_seq
    wb(&p->seq, sizeof p->seq);
    _mm_sfence();
#endif
  }
};
int main(int argc, char **argv) {
  int fd = ::open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd == -1) return 1;
  if (::ftruncate(fd, sizeof(Page)) == -1) return 1;
  void *m = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (m == MAP_FAILED) return 1;
  ConfigStore st(m);
  const Config &c = st.current();
  assert(c.height == c.width * 2);
  if (c.width) assert(std::strcmp(c.title, "window of the application") == 0);
  Config n{};
  for (int i = 1; i <= 2; i++) {
    n.width = c.width + i; n.height = n.width * 2;
    std::strcpy(n.title, "window of the application");
    st.update(n);
  }
}
