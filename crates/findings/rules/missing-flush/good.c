#include <crashproof.h>

static PERSISTENT struct {
  long value;
  char other_line[56];
  long written;
} entry __attribute__((aligned(64)));

int main(void) {
  if (entry.written)
    return entry.value < 0;
  entry.value = 42;
  crashproof_persist(&entry.value, sizeof entry.value);
  entry.written = 1;
  crashproof_persist(&entry.written, sizeof entry.written);
  return 0;
}
