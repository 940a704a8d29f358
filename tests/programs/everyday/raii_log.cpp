// A pool as a class that maps in its constructor and unmaps in its destructor; a log of values with a commit count.
//@ args: {dir}/log
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at value
//@ prove: refuted at claim

#include <cassert>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <immintrin.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

class Pool {
public:
  explicit Pool(const std::string &path, std::size_t size) : size_(size) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT, 0644);
    if (fd_ < 0)
      throw std::runtime_error("open");
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0)
      throw std::runtime_error("ftruncate");
    base_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (base_ == MAP_FAILED)
      throw std::runtime_error("mmap");
  }
  ~Pool() {
    ::munmap(base_, size_);
    ::close(fd_);
  }
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  template <typename T> T *root() const { return static_cast<T *>(base_); }

  static void persist(const void *start, std::size_t bytes) {
    auto line = reinterpret_cast<std::uintptr_t>(start) & ~std::uintptr_t{63};
    for (; line < reinterpret_cast<std::uintptr_t>(start) + bytes; line += 64)
      _mm_clwb(reinterpret_cast<void *>(line));
    _mm_sfence();
  }

private:
  int fd_ = -1;
  std::size_t size_;
  void *base_ = nullptr;
};

struct Log {
  std::uint64_t committed;
  alignas(64) std::uint64_t value[16];
};

class Writer {
public:
  explicit Writer(Log *log) : log_(log) {}
  void append(std::uint64_t value) {
    log_->value[log_->committed] = value; // MARK: value
#if BUG != 1
    Pool::persist(&log_->value[log_->committed], sizeof value);
#endif
    log_->committed += 1; // MARK: committed
    Pool::persist(&log_->committed, sizeof log_->committed);
  }

private:
  Log *log_;
};

int main(int argc, char **argv) {
  Pool pool(argc > 1 ? argv[1] : "log", 4096);
  Log *log = pool.root<Log>();
  for (std::uint64_t i = 0; i < log->committed; ++i)
    assert(log->value[i] == i + 1); // MARK: claim
  Writer writer(log);
  while (log->committed < 4)
    writer.append(log->committed + 1);
  return 0;
}
