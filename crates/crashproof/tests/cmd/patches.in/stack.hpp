#pragma once
#include "pm.hpp"
template <typename T, std::size_t N>
class PersistentStack {
  struct alignas(64) Slot {
    T value;
    std::uint64_t tag;
  };
  Slot slots_[N];
  alignas(64) std::uint64_t top_;

public:
  void push(const T &value) {
    Slot &slot = slots_[top_];
    slot.value = value;
    slot.tag = top_ + 100;
    ++top_;
    pm::persist(&top_, sizeof(top_));
  }
  bool check() const {
    for (std::uint64_t i = 0; i < top_; i++)
      if (slots_[i].tag != i + 100) return false;
    return true;
  }
};
