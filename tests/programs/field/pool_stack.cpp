// A stack in a pool that is a class; a template pointer by offset, a template that writes objects back.
//@ args: {dir}/stack
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant node: -DBUG=1
//@ check: recovery-fails at next
//@ check: recovery-fails at node
//@ lint: unflushed-write at node
//@ lint: unflushed-write at next
//@ variant top: -DBUG=2
//@ check: missing-flush at top
//@ lint: unflushed-write at top
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

namespace pm {

inline char *base = nullptr;

template <typename T> class Ref {
public:
  Ref() = default;
  explicit Ref(T *p) : offset_(p ? reinterpret_cast<char *>(p) - base : 0) {}
  T *get() const { return offset_ ? reinterpret_cast<T *>(base + offset_) : nullptr; }
  T *operator->() const { return get(); }
  explicit operator bool() const { return offset_ != 0; }

private:
  std::uint64_t offset_ = 0;
};

template <typename T> void persist(const T &object) {
  auto first = reinterpret_cast<std::uintptr_t>(&object) & ~std::uintptr_t(63);
  auto last = reinterpret_cast<std::uintptr_t>(&object) + sizeof(T);
  for (auto line = first; line < last; line += 64)
    _mm_clflushopt(reinterpret_cast<void *>(line));
  _mm_sfence();
}

class Pool {
public:
  Pool(const char *path, std::size_t bytes) : bytes_(bytes) {
    int fd = ::open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ::ftruncate(fd, bytes) < 0)
      std::exit(1);
    void *p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (p == MAP_FAILED)
      std::exit(1);
    base = static_cast<char *>(p);
  }
  ~Pool() { ::munmap(base, bytes_); }
  template <typename T> T &root() { return *reinterpret_cast<T *>(base); }

private:
  std::size_t bytes_;
};

} // namespace pm

struct Node {
  std::uint64_t value;
  pm::Ref<Node> next;
};

struct Root {
  pm::Ref<Node> top;
  alignas(64) std::uint64_t used;
};

class Stack {
public:
  explicit Stack(Root &root) : root_(root) {}
  void push(std::uint64_t value) {
    Node *node = allocate();
    node->value = value;    // MARK: node
    node->next = root_.top; // MARK: next
#if BUG != 1
    pm::persist(*node);
#endif
    root_.top = pm::Ref<Node>(node); // MARK: top
#if BUG != 2
    pm::persist(root_.top);
#endif
  }
  void check() const {
    std::uint64_t below = 0;
    for (auto n = root_.top; n; n = n->next) {
      assert(below == 0 || n->value + 1 == below); // MARK: claim
      below = n->value;
    }
    assert(below == 0 || below == 1); // MARK: bottom
  }
  std::uint64_t highest() const { return root_.top ? root_.top->value : 0; }

private:
  Node *allocate() {
    auto *node = reinterpret_cast<Node *>(pm::base + 128 + 64 * root_.used);
    root_.used = root_.used + 1;
    pm::persist(root_.used);
    return node;
  }
  Root &root_;
};

int main(int, char **argv) {
  pm::Pool pool(argv[1], 4096);
  Stack stack(pool.root<Root>());
  stack.check();
  for (auto v = stack.highest() + 1; v <= 3; v++)
    stack.push(v);
  return 0;
}
