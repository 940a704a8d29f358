// rep movsb, and memcpy between persistent places.
#include "pool.h"
struct s { char text[64]; char copy[64]; int valid; };
int main(void) {
  struct s *s = pool(4096);
  if (s->valid) {
    assert(!strcmp(s->text, "one two") && !memcmp(s->copy, s->text, 8));
    return 0;
  }
  const char *from = "one two";
  void *to = s->text;
  unsigned long n = 8;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
  memcpy(s->copy, s->text, 8); // MARK
  persist(s->text, 64);
  CORRECT(persist(s->copy, 64));
  s->valid = 1;
  persist(&s->valid, 4);
}
