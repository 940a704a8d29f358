/*
 * PMDK from C++, as far as the tests go: variables that log themselves if they are assigned to in a transaction, pointers to
 * objects of a pool, and transactions that are functions.
 */
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

extern "C" {
#include "pmdk.h"
PMEMobjpool *pmemobj_pool_by_ptr(const void *address);
const char *pmemobj_errormsg(void);
void pmemobj_tx_abort(int error);
void pmemobj_tx_commit(void);
}

namespace pmem {
namespace detail {
template <typename T> void log_if_needed(const T *what) {
  if (pmemobj_tx_stage() != TX_STAGE_WORK)
    return;
  if (!pmemobj_pool_by_ptr(what))
    return;
  if (pmemobj_tx_add_range_direct(what, sizeof *what))
    throw std::runtime_error(std::string("cannot log ") + pmemobj_errormsg());
}
} // namespace detail

namespace obj {
template <typename T> class p {
  T value;

public:
  p() = default;
  p(T value) : value(value) {}
  p &operator=(const p &other) {
    p copy(other);
    copy.swap(*this);
    return *this;
  }
  void swap(p &other) {
    detail::log_if_needed(this);
    detail::log_if_needed(&other);
    std::swap(value, other.value);
  }
  operator T() const { return value; }
  T &get_rw() {
    detail::log_if_needed(this);
    return value;
  }
};

template <typename T> class persistent_ptr {
  PMEMoid id;

public:
  persistent_ptr(PMEMoid id = {0, 0}) : id(id) {}
  persistent_ptr(const persistent_ptr &other) : id(other.id) {}
  persistent_ptr &operator=(const persistent_ptr &other) {
    detail::log_if_needed(this);
    id = other.id;
    return *this;
  }
  /* An address that is not in a pool is kept as it is. */
  T *get() const {
    if (id.pool_uuid_lo == ~0ull)
      return (T *)id.off;
    return (T *)pmemobj_direct(id);
  }
  T *operator->() const { return get(); }
  T &operator*() const { return *get(); }
  explicit operator bool() const { return id.off != 0; }
};

class pool {
  PMEMobjpool *handle;

public:
  explicit pool(PMEMobjpool *handle) : handle(handle) {}
  PMEMobjpool *get() const { return handle; }
  template <typename T> persistent_ptr<T> root() { return persistent_ptr<T>(pmemobj_root(handle, sizeof(T))); }
  template <typename T> void persist(const T &what) { pmemobj_persist(handle, &what, sizeof what); }
};

struct transaction {
  static void run(pool &where, std::function<void()> body) {
    if (pmemobj_tx_begin(where.get(), nullptr, 0))
      throw std::runtime_error("cannot begin");
    try {
      body();
    } catch (...) {
      pmemobj_tx_abort(1);
      (void)pmemobj_tx_end();
      throw;
    }
    if (pmemobj_tx_stage() == TX_STAGE_WORK)
      pmemobj_tx_commit();
    (void)pmemobj_tx_end();
  }
};

template <typename T> persistent_ptr<T> make_persistent() {
  if (pmemobj_tx_stage() != TX_STAGE_WORK)
    throw std::logic_error("no transaction");
  persistent_ptr<T> made(pmemobj_tx_alloc(sizeof(T), 1));
  new (made.get()) T();
  return made;
}
} // namespace obj
} // namespace pmem
