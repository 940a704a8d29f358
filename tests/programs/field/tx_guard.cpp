// A transaction as a guard: add() keeps the old value, the destructor commits, recovery rolls back.
//@ args: {dir}/tx
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ check: clean
//@ lint: clean
//@ variant undo: -DBUG=1
//@ check: recovery-fails at account
//@ check: recovery-fails at account
//@ check: missing-flush at from
//@ lint: unflushed-write at account
//@ lint: unflushed-write at entry
//@ variant commit: -DBUG=2
//@ check: recovery-fails at from
//@ check: recovery-fails at to
//@ lint: unflushed-write at from
//@ lint: unflushed-write at to
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

struct Entry {
  std::uint64_t account;
  std::int64_t old;
};

struct Bank {
  alignas(64) std::uint64_t entries;
  alignas(64) Entry log[4];
  alignas(64) std::int64_t balance[16];
};

static void persist(const void *p, std::size_t n) {
  for (auto a = reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t{63};
       a < reinterpret_cast<std::uintptr_t>(p) + n; a += 64)
    _mm_clflushopt(reinterpret_cast<void *>(a));
  _mm_sfence();
}

class Transaction {
public:
  explicit Transaction(Bank *bank) : bank_(bank) {}
  Transaction(const Transaction &) = delete;
  ~Transaction() {
#if BUG != 2
    for (std::uint64_t i = 0; i < bank_->entries; i++)
      persist(&bank_->balance[bank_->log[i].account], sizeof(std::int64_t));
#endif
    bank_->entries = 0;
    persist(&bank_->entries, sizeof bank_->entries);
  }
  std::int64_t &add(std::uint64_t account) {
    Entry &entry = bank_->log[bank_->entries];
    entry.account = account; // MARK: account
    entry.old = bank_->balance[account]; // MARK: entry
#if BUG != 1
    persist(&entry, sizeof entry);
#endif
    bank_->entries++;
    persist(&bank_->entries, sizeof bank_->entries);
    return bank_->balance[account];
  }

private:
  Bank *bank_;
};

static void transfer(Bank *bank, unsigned from, unsigned to, std::int64_t amount) {
  Transaction tx(bank);
  tx.add(from) -= amount; // MARK: from
  tx.add(to) += amount; // MARK: to
}

static void rollback(Bank *bank) {
  for (std::uint64_t i = bank->entries; i-- > 0;) {
    bank->balance[bank->log[i].account] = bank->log[i].old;
    persist(&bank->balance[bank->log[i].account], sizeof(std::int64_t));
  }
  if (bank->entries) {
    bank->entries = 0;
    persist(&bank->entries, sizeof bank->entries);
  }
}

int main(int, char **argv) {
  int fd = ::open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(Bank)) < 0)
    return 1;
  auto *bank = static_cast<Bank *>(::mmap(nullptr, sizeof(Bank), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  if (bank == MAP_FAILED)
    return 1;
  rollback(bank);
  std::int64_t sum = 0;
  for (std::int64_t b : bank->balance)
    sum += b;
  assert(sum == 0); // MARK: claim
  transfer(bank, 1, 9, 5);
  return 0;
}
