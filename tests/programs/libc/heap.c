// Memory of the process is forgotten in a crash, and its globals begin anew.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ prove: proved
#include <crashproof.h>
#include <stdlib.h>
#include <string.h>
static int runs;
PERSISTENT long total __attribute__((aligned(64)));
int main(void) {
  runs++;
  long *numbers = malloc(4 * sizeof *numbers);
  for (int i = 0; i < 4; i++)
    numbers[i] = i * i;
  long copy[4];
  memcpy(copy, numbers, sizeof copy);
  memset(numbers, 0, sizeof copy);
  total = copy[1] + copy[2] + copy[3] + numbers[2]; // MARK: unflushed-write
  free(numbers);
  return 0;
}
void recover(void) {
  crashproof_assert(runs == 0);
  crashproof_assert(total == 0 || total == 14);
}
