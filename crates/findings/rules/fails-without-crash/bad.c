#include <crashproof.h>
#include <stddef.h>

struct node {
  long value;
  struct node *next;
};

PERSISTENT struct node first;

int main(void) {
  first.value = 1;
  crashproof_persist(&first, sizeof first);
  first.next->value = 2; /* there is no next one */
  return 0;
}
