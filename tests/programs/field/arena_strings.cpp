// Strings in an arena, entries in an array beside it: a flush of an entry is none of the text, wherever both are.
//@ args: {dir}/kv
//@ cflags: -std=c++17
//@ variant right:
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant item: -DBUG_1
//@ check: recovery-fails at item
//@ lint: unflushed-write at item
//@ prove: refuted at claim2
//@ variant text: -DBUG_2
//@ check: recovery-fails at text
//@ lint: unflushed-write at text
//@ prove: refuted at claim
#include <string>
#include <string_view>
#include <optional>
#include <stdexcept>
#include <cstring>
#include <cassert>
#include <cstdint>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>
class Pool {
public:
  Pool(const std::string &path, std::size_t size) : size_{size} {
    fd_ = open(path.c_str(), O_RDWR | O_CREAT, 0666);
    if (fd_ < 0) throw std::runtime_error("open");
    if (ftruncate(fd_, size) < 0) throw std::runtime_error("truncate");
    base_ = static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap");
  }
  ~Pool() { munmap(base_, size_); close(fd_); }
  Pool(const Pool &) = delete;
  char *base() const { return base_; }
  void persist(const void *p, std::size_t n) const {
    auto b = reinterpret_cast<std::uintptr_t>(p) / 64 * 64;
    auto e = reinterpret_cast<std::uintptr_t>(p) + n;
    for (; b < e; b += 64) _mm_clflushopt(reinterpret_cast<char *>(b));
    _mm_sfence();
  }
private:
  int fd_ = -1; char *base_ = nullptr; std::size_t size_;
};
struct Item { std::uint32_t koff, klen, voff, vlen; };
struct Root { std::uint64_t count; std::uint64_t arena_top; std::uint64_t pad[6]; Item items[8]; char arena[1024]; };
class Kv {
public:
  explicit Kv(Pool &p) : pool_(p), root_(reinterpret_cast<Root *>(p.base())) {}
  void set(std::string_view k, std::string_view v) {
    Item it{};
    it.koff = store(k); it.klen = k.size();
    it.voff = store(v); it.vlen = v.size();
    root_->items[root_->count] = it; // MARK: item
#ifndef BUG_1
    pool_.persist(&root_->items[root_->count], sizeof it);
#endif
    root_->count++;
#ifndef BUG_3
    pool_.persist(&root_->count, sizeof root_->count);
#endif
  }
  std::optional<std::string> get(std::string_view k) const {
    for (std::uint64_t i = 0; i < root_->count; i++) {
      const Item &it = root_->items[i];
      if (std::string_view(root_->arena + it.koff, it.klen) == k) return std::string(root_->arena + it.voff, it.vlen);
    }
    return std::nullopt;
  }
  std::uint64_t size() const { return root_->count; }
private:
  std::uint32_t store(std::string_view s) {
    std::uint32_t at = root_->arena_top;
    std::memcpy(root_->arena + at, s.data(), s.size()); // MARK: text
#ifndef BUG_2
    pool_.persist(root_->arena + at, s.size());
#endif
    root_->arena_top = at + s.size();
    pool_.persist(&root_->arena_top, sizeof root_->arena_top);
    return at;
  }
  Pool &pool_; Root *root_;
};
int main(int argc, char **argv) {
  Pool pool(argv[1], sizeof(Root));
  Kv kv(pool);
  if (kv.size() >= 1) assert(kv.get("color") == "blue"); // MARK: claim
  if (kv.size() >= 2) assert(kv.get("a key of some length") == "value"); // MARK: claim2
  if (kv.size() == 0) { kv.set("color", "blue"); kv.set("a key of some length", "value"); }
}
