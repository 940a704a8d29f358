#include <crashproof.h>

static long doubled(long value) { return 2 * value; }
static long (*const functions[])(long) = {0, doubled};

PERSISTENT struct {
  long function; /* an index */
  long value;
} task;

int main(void) {
  if (crashproof_crashes())
    return task.function ? functions[task.function](task.value) < 0 : 0;
  task.value = 1;
  task.function = 1;
  crashproof_persist(&task, sizeof task);
  return 0;
}
