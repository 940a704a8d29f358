// Non-temporal stores.
#include "pool.h"
struct s { long long data[8]; int valid; };
int main(void) {
  struct s *s = pool(4096);
  if (s->valid) {
    for (int i = 0; i < 8; i++)
      assert(s->data[i] == 3 + i);
    return 0;
  }
  for (int i = 0; i < 8; i++)
    _mm_stream_si64(&s->data[i], 3 + i); // MARK
  CORRECT(_mm_sfence());
  s->valid = 1;
  persist(&s->valid, 4);
}
