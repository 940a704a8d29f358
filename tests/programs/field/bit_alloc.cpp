// A block device in C++: a bitmap class, a guard object that persists when it goes out of scope.
//@ args: {dir}/dev
//@ prove: skip (written for lint; not measured with prove yet)
//@ cflags: -std=c++20
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant block: -DBUG=1
//@ check: recovery-fails at block
//@ lint: unflushed-write at block
//@ variant bit: -DBUG=2
//@ check: clean
//@ lint: unflushed-write at bit
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

class Persist {
  const char *p;
  std::size_t n;

public:
  template <class T> explicit Persist(const T &object) : p(reinterpret_cast<const char *>(&object)), n(sizeof(T)) {}
  Persist(const Persist &) = delete;
  ~Persist() {
    for (std::size_t i = 0; i < n; i += 64)
      _mm_clwb(const_cast<char *>(p + i));
    _mm_sfence();
  }
};

struct alignas(64) Block {
  char data[128];
};

struct Device {
  alignas(64) std::uint64_t bitmap;
  Block blocks[16];

  int write(char c) {
    int free = std::countr_one(bitmap);
    if (free >= 16)
      return -1;
    {
#if BUG != 1
      Persist guard(blocks[free]);
#endif
      std::memset(blocks[free].data, c, sizeof(Block)); // MARK: block
    }
    set(free);
    return free;
  }

private:
  void set(int i) {
#if BUG != 2
    Persist guard(bitmap);
#endif
    bitmap |= std::uint64_t(1) << i; // MARK: bit
  }
};

int main(int, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Device)))
    return 1;
  auto *d = static_cast<Device *>(mmap(nullptr, sizeof(Device), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  if (d == MAP_FAILED)
    return 1;
  for (int i = 0; i < 16; i++)
    if (d->bitmap >> i & 1)
      for (char c : d->blocks[i].data)
        assert(c == 'z');
  while (std::popcount(d->bitmap) < 3)
    if (d->write('z') < 0)
      return 1;
}
