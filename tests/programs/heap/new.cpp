// With --pm-heap, what C++ code allocates with new is persistent too, and so is the text of streams; exceptions stay volatile.
//@ flags check: --pm-heap
//@ lint: skip (lint has no --pm-heap)
//@ prove: skip (prove has no --pm-heap)
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 5 crash points, 2 recoveries
//@ variant plain:
//@ check: fails at LOST
//@ figures: 4 crash points, 3 recoveries
#include <crashproof.h>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <vector>

struct Item {
  long value;
  Item *next;
};

struct Root {
  Item *first;
  std::vector<long> *numbers;
};

struct alignas(128) Aligned {
  char bytes[128];
};

static void persist(const void *start, size_t bytes) { crashproof_persist(start, bytes); }

int main() {
  auto *root = static_cast<Root *>(crashproof_root(sizeof(Root)));
  std::ostringstream text;
  text << "streams allocate for themselves";
  try {
    throw std::runtime_error(text.str());
  } catch (const std::runtime_error &) {
  }
  std::unique_ptr<Aligned> aligned(new Aligned);
  crashproof_assert(reinterpret_cast<uintptr_t>(aligned.get()) % 128 == 0);
  delete[] new (std::nothrow) long[100];
  if (root->first) {
    crashproof_assert(root->first->value == 17);
    crashproof_assert(root->numbers->size() == 2 && root->numbers->at(1) == 4);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
  auto *numbers = new std::vector<long>;
  numbers->push_back(3);
  numbers->push_back(4);
  persist(numbers->data(), 2 * sizeof(long));
  persist(numbers, sizeof *numbers);
  root->numbers = numbers;
  persist(&root->numbers, sizeof root->numbers);
  auto *item = new Item{17, nullptr}; // MARK: LOST
  crashproof_assert(reinterpret_cast<uintptr_t>(item) >> 44 == 1);
#ifdef GOOD
  persist(item, sizeof *item);
#endif
  root->first = item;
  persist(&root->first, sizeof root->first);
  return 0;
}
