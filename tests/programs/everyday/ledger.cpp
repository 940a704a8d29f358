// A pool as a class that throws; a std::map beside it is made anew in every run.
//@ args: {dir}/accounts
//@ lint: skip (written for prove)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant order: -DBUG=1
//@ check: skip (prove replays its counterexample with check)
//@ prove: refuted
#include <cassert>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <immintrin.h>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace pm {
inline void flush(const void *p, std::size_t n) {
  auto a = reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t{63};
  auto e = reinterpret_cast<std::uintptr_t>(p) + n;
  for (; a < e; a += 64)
    _mm_clwb(reinterpret_cast<void *>(a));
}
inline void fence() { _mm_sfence(); }
template <typename T> void persist(const T &x) {
  flush(&x, sizeof x);
  fence();
}

template <typename Root> class Pool {
public:
  explicit Pool(const std::string &path) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (fd_ < 0)
      throw std::runtime_error("open " + path);
    if (::ftruncate(fd_, sizeof(Root)) != 0)
      throw std::runtime_error("ftruncate");
    void *p = ::mmap(nullptr, sizeof(Root), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (p == MAP_FAILED)
      throw std::runtime_error("mmap");
    root_ = static_cast<Root *>(p);
  }
  ~Pool() {
    ::munmap(root_, sizeof(Root));
    ::close(fd_);
  }
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;
  Root *operator->() { return root_; }
  Root &operator*() { return *root_; }

private:
  int fd_ = -1;
  Root *root_ = nullptr;
};
} // namespace pm

struct Record {
  char name[24];
  std::int64_t amount;
};

struct Root {
  std::uint64_t count;
  alignas(64) Record records[8];
};

class Ledger {
public:
  explicit Ledger(pm::Pool<Root> &pool) : pool_(pool) {
    for (std::uint64_t i = 0; i < pool_->count; ++i)
      index_[pool_->records[i].name] = i;
  }
  void add(const std::string &name, std::int64_t amount) {
    if (index_.count(name))
      return;
    Record &r = pool_->records[pool_->count];
    std::strncpy(r.name, name.c_str(), sizeof r.name - 1);
    r.name[sizeof r.name - 1] = '\0';
    r.amount = amount;
#if BUG == 1
    pm::flush(&r, sizeof r);
#else
    pm::persist(r);
#endif
    pool_->count++;
    pm::persist(pool_->count);
    index_[name] = pool_->count - 1;
  }
  std::int64_t get(const std::string &name) const { return pool_->records[index_.at(name)].amount; }
  bool has(const std::string &name) const { return index_.find(name) != index_.end(); }

private:
  pm::Pool<Root> &pool_;
  std::map<std::string, std::uint64_t> index_;
};

int main(int argc, char **argv) {
  try {
    pm::Pool<Root> pool(argc > 1 ? argv[1] : "accounts");
    Ledger ledger(pool);
    std::vector<std::pair<std::string, std::int64_t>> wanted{{"rent", -900}, {"salary", 2000}};
    for (const auto &[name, amount] : wanted)
      if (ledger.has(name) && ledger.get(name) != amount) {
        std::cerr << "wrong amount for " << name << "\n";
        return 1;
      }
    assert(pool->count <= wanted.size());
    for (std::uint64_t i = 0; i < pool->count; ++i)
      assert(pool->records[i].name == wanted[i].first);
    for (const auto &[name, amount] : wanted)
      ledger.add(name, amount);
  } catch (const std::exception &e) {
    std::cerr << e.what() << std::endl;
    return 2;
  }
  return 0;
}
