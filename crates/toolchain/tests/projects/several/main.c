#include "store.h"

PERSISTENT long counter = 10;

/* A volatile initializer naming a persistent global of another object. */
static struct entry *first = &entries[1];

int main(void) {
  push(first, 1);
  push(first + 1, 2);
  counter += total();
  return counter == 13 ? 0 : 1;
}
