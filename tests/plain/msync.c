// memset and msync.
#include "pool.h"
struct s { char data[4096]; long valid; };
int main(void) {
  struct s *s = pool(8192);
  if (s->valid) {
    for (int i = 0; i < 200; i++)
      assert(s->data[i] == 'x');
    return 0;
  }
  memset(s->data, 'x', 200); // MARK
  CORRECT(msync(s, 4096, MS_SYNC));
  s->valid = 1;
  msync(s->data + 4096, 4096, MS_SYNC);
}
