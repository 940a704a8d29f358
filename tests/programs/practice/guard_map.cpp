// A hash map in C++: a guard writes back what was touched when it goes out of scope.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: flush-unmodified at flush-unmodified-4
//@ variant bucket: -DBUG=1
//@ lint: unflushed-write at key
//@ lint: unflushed-write at value
//@ variant used: -DBUG=2
//@ lint: unflushed-write at used
//@ lint: flush-unmodified at flush-unmodified-4
//@ variant total: -DBUG=3
//@ lint: unflushed-write at total
//@ lint: flush-unmodified at flush-unmodified-4
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <immintrin.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

class Persist {
public:
  Persist(void *address, size_t bytes) : address_(static_cast<char *>(address)), bytes_(bytes) {}
  ~Persist() {
    auto at = reinterpret_cast<uintptr_t>(address_) & ~uintptr_t(63);
    while (at < reinterpret_cast<uintptr_t>(address_) + bytes_) {
      _mm_clflushopt(reinterpret_cast<void *>(at));
      at += 64;
    }
    _mm_sfence();
  }

private:
  char *address_;
  size_t bytes_;
};

struct Bucket {
  uint64_t used;
  uint64_t pad[7];
  uint64_t key;
  uint64_t value;
  uint64_t more[6];
};

struct Table {
  uint64_t total;
  uint64_t pad[7];
  Bucket buckets[16];
};

class HashMap {
public:
  explicit HashMap(const std::string &path) {
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ::ftruncate(fd, sizeof(Table)) != 0)
      std::abort();
    void *at = ::mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
      std::abort();
    table_ = static_cast<Table *>(at);
    ::close(fd);
  }
  ~HashMap() { ::munmap(table_, sizeof(Table)); }

  bool insert(uint64_t key, uint64_t value) {
    Bucket *bucket = find(key);
    if (!bucket)
      return false;
    {
#if BUG != 1
      Persist guard(bucket, sizeof *bucket);
#endif
      bucket->key = key;     // MARK: key
      bucket->value = value; // MARK: value
    } // MARK: flush-unmodified-4
    {
#if BUG != 2
      Persist guard(&bucket->used, sizeof bucket->used);
#endif
      bucket->used = 1; // MARK: used
    }
    table_->total++; // MARK: total
#if BUG != 3
    Persist guard(&table_->total, sizeof table_->total);
#endif
    return true;
  }

  void verify() const {
    uint64_t used = 0;
    for (const Bucket &bucket : table_->buckets)
      if (bucket.used) {
        assert(bucket.value == bucket.key + 1);
        used++;
      }
    assert(table_->total <= used && used <= table_->total + 1);
  }
  uint64_t total() const { return table_->total; }

private:
  Bucket *find(uint64_t key) {
    for (uint64_t i = 0; i < 16; i++) {
      Bucket &bucket = table_->buckets[(key + i) % 16];
      if (!bucket.used)
        return &bucket;
    }
    return nullptr;
  }
  Table *table_;
};

int main(int, char **argv) {
  auto map = std::make_unique<HashMap>(argv[1]);
  map->verify();
  if (map->total() == 0) {
    map->insert(3, 4);
    map->insert(19, 20);
  }
  return 0;
}
