// A string, byte by byte.
#include "pool.h"
struct s { char name[64]; unsigned short length; unsigned char valid; };
int main(void) {
  struct s *s = pool(4096);
  if (s->valid) {
    assert(s->length == 11 && memcmp(s->name, "hello world", 11) == 0);
    return 0;
  }
  const char *from = "hello world";
  for (int i = 0; from[i]; i++)
    s->name[i] = from[i]; // MARK
  CORRECT(persist(s->name, 64));
  s->length = 11;
  s->valid = 1;
  persist(&s->length, 3);
}
