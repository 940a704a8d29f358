// Bit-fields and a bitmap.
#include "pool.h"
struct s { unsigned a : 3, b : 5, c : 24; char pad[60]; uint8_t map[64]; int32_t sum; };
int main(void) {
  struct s *s = pool(4096);
  int set = 0;
  for (int i = 0; i < 512; i++)
    set += s->map[i / 8] >> (i % 8) & 1;
  assert(s->sum <= set);
  assert(s->c == 0 || (s->a == 5 && s->b == 17));
  s->a = 5;
  s->b = 17;
  persist(s, 4);
  s->c = 77;
  persist(s, 4);
  for (int i = s->sum; i < 10; i++) {
    s->map[i / 8] |= 1 << (i % 8); // MARK
    CORRECT(persist(&s->map[i / 8], 1));
    s->sum++;
    persist(&s->sum, 4);
  }
}
