// Names are std::string outside and fixed arrays inside persistent memory.
//@ args: {dir}/names
//@ lint: skip (lint is asked about programs of its own group)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant bug-1: -DBUG=1
//@ check: recovery-fails at name
//@ prove: refuted at claim

#include <cassert>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <immintrin.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct Person {
  char name[32];
  std::uint32_t age;
  std::uint32_t valid;
};

static void persist(const void *p, std::size_t n) {
  auto a = reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t(63);
  for (; a < reinterpret_cast<std::uintptr_t>(p) + n; a += 64)
    _mm_clflushopt(reinterpret_cast<void *>(a));
  _mm_sfence();
}

static void save(Person *p, const std::string &name, std::uint32_t age) {
  p->valid = 0;
  persist(&p->valid, sizeof p->valid);
  std::strncpy(p->name, name.c_str(), sizeof p->name - 1); // MARK: name
  p->age = age;
#if BUG == 1
  p->valid = 1;
#else
  persist(p, sizeof *p);
  p->valid = 1; // MARK: valid
#endif
  persist(p, sizeof *p);
}

int main(int argc, char **argv) {
  std::string path = argc > 1 ? argv[1] : "names";
  int fd = open(path.c_str(), O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 4096) != 0)
    return 1;
  void *mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED)
    return 1;
  /* two cache lines: the name begins at the end of the first */
  auto *p = reinterpret_cast<Person *>(static_cast<char *>(mapped) + 48);
  if (p->valid) {
    std::string name(p->name);
    assert(name == "Ada" || name == "Grace Hopper"); // MARK: claim
    assert(p->age == (name == "Ada" ? 36u : 85u)); // MARK: age
  }
  save(p, "Ada", 36);
  save(p, "Grace Hopper", 85);
  return 0;
}
