#include <crashproof.h>

static PERSISTENT struct {
  long value;
  char other_line[56];
  long written;
} entry __attribute__((aligned(64)));

int main(void) {
  if (entry.written)
    return entry.value < 0; /* never fails, but may read a value that is not there yet */
  entry.value = 42;
  entry.written = 1;
  crashproof_persist(&entry, sizeof entry);
  return 0;
}
