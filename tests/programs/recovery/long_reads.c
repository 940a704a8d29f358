// A recovery that reads much, and four times as much from one crash to the next: it is looked at while it runs, again and
// again, and must not be taken for one that never ends because of where it was interrupted.
//@ check: clean
//@ lint: clean
//@ prove: skip (loops of thousands of rounds)
#include <crashproof.h>

enum { WORDS = 512, ADDED = 7 };

struct table {
  long count;
  char pad[56];
  long words[WORDS];
};

int main(void) {
  struct table *table = crashproof_root(sizeof *table);
  long count = table->count;
  long sum = 0;
  for (long round = 0; round < 1L << 2 * count; round++)
    for (long i = 0; i < WORDS; i++)
      sum += table->words[i];
  // Each word was added before it was counted, and is 1.
  crashproof_assert(sum >= count * (1L << 2 * count));
  for (; count < ADDED; count++) {
    table->words[count] = 1;
    crashproof_persist(&table->words[count], sizeof table->words[count]);
    table->count = count + 1;
    crashproof_persist(&table->count, sizeof table->count);
  }
}
