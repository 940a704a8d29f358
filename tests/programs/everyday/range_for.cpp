// A class over a pool that another class maps: a loop over all elements of an array stores every line that is then flushed,
// wherever the pool is.
//@ variant correct: -DCORRECT
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
//@ variant ready: -DREADY_FIRST
//@ check: recovery-fails-nothing-lost at ready
//@ check: recovery-fails at balance
//@ lint: fails at ready (known wrong: a flag that is set before what it guards is stored)
//@ prove: refuted
#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "crashproof.h"

struct Accounts {
  std::uint64_t ready;
  alignas(64) std::int64_t balance[32];
};

static void persist(const void *object, std::size_t bytes) {
  auto line = reinterpret_cast<std::uintptr_t>(object) & ~std::uintptr_t{63};
  for (auto end = reinterpret_cast<std::uintptr_t>(object) + bytes; line < end; line += 64)
    _mm_clwb(reinterpret_cast<void *>(line));
  _mm_sfence();
}

class Pool {
public:
  Pool() : base_(crashproof_root(sizeof(Accounts))) {}
  template <class T> T *root() { return static_cast<T *>(base_); }

private:
  void *base_;
};

class Bank {
public:
  explicit Bank(Pool &pool) : accounts_(pool.root<Accounts>()) {
    if (accounts_->ready)
      return;
#ifdef READY_FIRST
    accounts_->ready = 1; // MARK: ready
    persist(&accounts_->ready, sizeof accounts_->ready);
#endif
    for (auto &balance : accounts_->balance)
      balance = 100; // MARK: balance
    persist(accounts_->balance, sizeof accounts_->balance);
    accounts_->ready = 1;
    persist(&accounts_->ready, sizeof accounts_->ready);
  }
  std::int64_t total() const {
    std::int64_t total = 0;
    for (auto balance : accounts_->balance)
      total += balance;
    return total;
  }

private:
  Accounts *accounts_;
};

int main() {
  Pool pool;
  Bank bank(pool);
  return bank.total() != 3200;
}
