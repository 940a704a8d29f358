#include <crashproof.h>

static long doubled(long value) { return 2 * value; }

PERSISTENT struct {
  long (*function)(long);
  long value;
} task;

int main(void) {
  if (crashproof_crashes())
    return task.function ? task.function(task.value) < 0 : 0;
  task.value = 1;
  task.function = doubled; /* code is somewhere else in the next run */
  crashproof_persist(&task, sizeof task);
  return 0;
}
