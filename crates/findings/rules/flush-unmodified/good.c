#include <stdint.h>
#include <crashproof.h>

struct task {
  long state;
  char history[256];
};
PERSISTENT struct task task;

int main(void) {
  task.state = 1;
  crashproof_persist(&task.state, sizeof task.state);
  return 0;
}
