// A vector in a pool that a class maps and unmaps.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant element: -DBUG=1
//@ lint: unflushed-write at element
//@ variant size: -DBUG=2
//@ lint: unflushed-write at size
//@ variant fence: -DBUG=3
//@ lint: publish-before-persist at element
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <immintrin.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace pm {

inline void flush(const void *p, std::size_t n) {
  auto first = reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t{63};
  for (auto at = first; at < reinterpret_cast<std::uintptr_t>(p) + n; at += 64)
    _mm_clwb(reinterpret_cast<void *>(at));
}
inline void fence() { _mm_sfence(); }

template <typename T> void persist(const T &object) {
  flush(&object, sizeof(T));
  fence();
}

class Pool {
public:
  Pool(const std::string &path, std::size_t bytes) : bytes_(bytes) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (fd_ < 0)
      throw std::runtime_error("open");
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0)
      throw std::runtime_error("ftruncate");
    base_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (base_ == MAP_FAILED)
      throw std::runtime_error("mmap");
  }
  Pool(const Pool &) = delete;
  ~Pool() {
    ::munmap(base_, bytes_);
    ::close(fd_);
  }
  template <typename T> T *root() { return static_cast<T *>(base_); }

private:
  int fd_;
  void *base_;
  std::size_t bytes_;
};

template <typename T, std::size_t N> class Vector {
public:
  void push_back(const T &value) {
    if (size_ == N)
      throw std::length_error("full");
    elements_[size_] = value; // MARK: element
#if BUG != 1
    flush(&elements_[size_], sizeof(T)); // MARK: flush
#if BUG != 3
    fence();
#endif
#endif
    size_++; // MARK: size
#if BUG != 2
    persist(size_);
#endif
  }
  const T &operator[](std::size_t at) const { return elements_[at]; }
  std::size_t size() const { return size_; }

private:
  alignas(64) std::size_t size_;
  alignas(64) T elements_[N];
};

} // namespace pm

struct Point {
  double x, y;
};

int main(int, char **argv) {
  pm::Pool pool(argv[1], 1 << 16);
  auto *points = pool.root<pm::Vector<Point, 100>>();
  for (std::size_t i = 0; i < points->size(); i++)
    assert((*points)[i].x == static_cast<double>(i + 1) && (*points)[i].y == 1.0);
  for (auto i = points->size(); i < 3; i++)
    points->push_back(Point{static_cast<double>(i + 1), 1.0});
  return 0;
}
