#pragma once
#include <immintrin.h>
#include <cstddef>
#include <cstdint>
namespace pm {
inline void persist(const void *p, std::size_t n) {
  auto a = reinterpret_cast<std::uintptr_t>(p) & ~std::uintptr_t{63};
  for (; a < reinterpret_cast<std::uintptr_t>(p) + n; a += 64) _mm_clwb(reinterpret_cast<void *>(a));
  _mm_sfence();
}
}
