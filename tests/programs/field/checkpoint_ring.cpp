// A ring of checkpoints: the count of all that were ever written is persisted before the checkpoint that it covers.
//@ args: {dir}/pool
//@ prove: skip (written for lint)
//@ variant right: -DRIGHT
//@ check: clean
//@ lint: clean
//@ variant rec: -DBUG_REC
//@ check: recovery-fails at rec
//@ lint: unflushed-write at rec
//@ variant late: -DBUG_LATE
//@ check: recovery-fails-nothing-lost at next
//@ lint: publish-before-persist at rec
#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <immintrin.h>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace pm {
inline void wb(const void *p, std::size_t n) {
  const char *c = reinterpret_cast<const char *>(reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t(63));
  const char *e = static_cast<const char *>(p) + n;
  while (c < e) {
    _mm_clwb(const_cast<char *>(c));
    c += 64;
  }
}
inline void fence() { _mm_sfence(); }
template <class T> class Ring {
public:
  static constexpr std::uint64_t N = 4;
  alignas(64) std::uint64_t next;
  struct alignas(64) Cell { T value; };
  Cell cell[N];
  void put(const T &v) {
    Cell &c = cell[next % N];
#ifdef BUG_LATE
    next++; // MARK: next
    wb(&next, sizeof next);
    fence();
    c.value = v; // MARK: rec
    wb(&c, sizeof c);
    fence();
#else
    c.value = v; // MARK: rec
#ifndef BUG_REC
    wb(&c, sizeof c);
    fence();
#endif
    next++;
    wb(&next, sizeof next);
    fence();
#endif
  }
  const T *last() const { return next ? &cell[(next - 1) % N].value : nullptr; }
};
} // namespace pm
struct Checkpoint {
  std::uint64_t sum;
  std::uint64_t twice;
};
struct Image {
  std::uint64_t magic;
  alignas(64) std::uint64_t shard[2][8];
  pm::Ring<Checkpoint> ring;
};
struct Unmapper {
  void operator()(Image *im) const { ::munmap(im, sizeof *im); }
};
using ImagePtr = std::unique_ptr<Image, Unmapper>;
static ImagePtr open_image(const char *path) {
  int fd = ::open(path, O_RDWR | O_CREAT, 0644);
  if (fd < 0) return nullptr;
  if (::ftruncate(fd, sizeof(Image)) < 0) {
    ::close(fd);
    return nullptr;
  }
  void *p = ::mmap(nullptr, sizeof(Image), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return ImagePtr(p == MAP_FAILED ? nullptr : static_cast<Image *>(p));
}
class Counters {
public:
  explicit Counters(Image &im) : im_(im) {}
  void add(int shard, std::uint64_t by) {
    im_.shard[shard][0] += by;
#ifndef BUG_SHARD
    pm::wb(&im_.shard[shard][0], sizeof(std::uint64_t));
    pm::fence();
#endif
  }
  void checkpoint() {
    std::lock_guard<std::mutex> hold(lock_);
    std::uint64_t sum = im_.shard[0][0] + im_.shard[1][0];
    im_.ring.put(Checkpoint{sum, 2 * sum});
  }

private:
  Image &im_;
  std::mutex lock_;
};
int main(int argc, char **argv) {
  ImagePtr im = open_image(argc > 1 ? argv[1] : "counters");
  if (!im) return 1;
  if (im->magic == 3) {
    if (const Checkpoint *c = im->ring.last()) {
      assert(c->sum > 0 && c->twice == 2 * c->sum);
      assert(im->shard[0][0] + im->shard[1][0] >= c->sum);
    }
    return 0;
  }
  im->magic = 3;
  pm::wb(&im->magic, sizeof im->magic);
  pm::fence();
  Counters c(*im);
  std::vector<std::thread> all;
  for (int t = 0; t < 2; t++) all.emplace_back([&c, t] { c.add(t, 10 + t); });
  for (auto &t : all) t.join();
  c.checkpoint();
  c.add(0, 5);
  c.checkpoint();
}
