// Vectors of 16 bytes.
#include "pool.h"
struct s { char text[128]; int valid; };
int main(void) {
  struct s *s = pool(4096);
  if (s->valid) {
    for (int i = 0; i < 128; i++)
      assert(s->text[i] == (char)i);
    return 0;
  }
  char here[128];
  for (int i = 0; i < 128; i++)
    here[i] = (char)i;
  for (int i = 0; i < 128; i += 16)
    _mm_storeu_si128((__m128i *)(s->text + i), _mm_loadu_si128((__m128i *)(here + i))); // MARK
  persist(s->text, 64);
  CORRECT(persist(s->text + 64, 64));
  s->valid = 1;
  persist(&s->valid, 4);
}
