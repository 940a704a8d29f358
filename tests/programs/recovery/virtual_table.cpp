// An object with virtual functions has a pointer to their table, which is code's: it means nothing in the next run.
//@ lint: skip (where pointers point to is not among its rules)
//@ prove: skip (prove has one address space for all runs)
//@ check: volatile-pointer at made
#include <crashproof.h>
#include <new>

struct Shape {
  virtual long area() const { return 1; }
  virtual ~Shape() = default;
};

struct Square : Shape { // MARK: made
  long side = 3;
  long area() const override { return side * side; }
};

struct Root {
  alignas(64) char shape[sizeof(Square)];
  alignas(64) long ready;
};

int main() {
  auto *root = static_cast<Root *>(crashproof_root(sizeof(Root)));
  if (crashproof_crashes()) {
    if (!root->ready)
      return 0;
    volatile auto *shape = reinterpret_cast<Shape *>(root->shape);
    return const_cast<const Shape *>(shape)->area() == 9 ? 0 : 1;
  }
  new (root->shape) Square;
  crashproof_persist(root->shape, sizeof root->shape);
  root->ready = 1;
  crashproof_persist(&root->ready, sizeof root->ready);
  return 0;
}
