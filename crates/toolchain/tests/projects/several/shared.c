#include "store.h"

/* An initializer naming a persistent global of the program that loads this library. */
PERSISTENT struct entry *root = &entries[0];

long total(void) {
  long sum = 0;
  for (struct entry *e = root; e; e = e->next) sum += e->value;
  return sum;
}
