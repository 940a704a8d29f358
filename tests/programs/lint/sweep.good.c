// A loop over all there is writes back what others stored and did not wait for.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct node {
  uint64_t value;
  char pad[56];
  struct node *next;
};

PERSISTENT struct node *first;

void checkpoint(void) {
  for (struct node *at = first; at; at = at->next)
    flush(&at->value, sizeof at->value);
  _mm_sfence();
}
