// cmpxchg16b.
#include "pool.h"
struct pair { unsigned long long a, b; } __attribute__((aligned(16)));
struct s { struct pair pair; char pad[48]; int valid; };
int main(void) {
  struct s *s = pool(4096);
  if (s->valid) {
    assert(s->pair.a == 5 && s->pair.b == 6);
    return 0;
  }
  unsigned char done;
  __asm__ volatile("lock cmpxchg16b %1\n\tsete %0" : "=q"(done), "+m"(s->pair) : "a"(0ull), "d"(0ull), "b"(5ull), "c"(6ull) : "cc", "memory"); // MARK
  CORRECT(persist(&s->pair, 16));
  s->valid = 1;
  persist(&s->valid, 4);
}
