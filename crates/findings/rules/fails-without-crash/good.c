#include <crashproof.h>
#include <stddef.h>

struct node {
  long value;
  struct node *next;
};

PERSISTENT struct node first;

int main(void) {
  first.value = 1;
  if (first.next)
    first.next->value = 2;
  crashproof_persist(&first, sizeof first);
  return 0;
}
