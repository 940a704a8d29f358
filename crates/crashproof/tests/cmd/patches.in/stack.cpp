#include "stack.hpp"
#include <crashproof.h>
int main() {
  auto *stack = static_cast<PersistentStack<long, 8> *>(crashproof_root(sizeof(PersistentStack<long, 8>)));
  if (crashproof_crashes()) return stack->check() ? 0 : 1;
  stack->push(1);
  stack->push(2);
}
