#include "pm.h"
struct slot {
  char head[56];
  char text[40];
  long used __attribute__((aligned(64)));
};
static void put(struct slot *s, const char *text) {
  memcpy(s->text, text, 40);
  persist(s);
  s->used = 1;
  persist(&s->used);
}
int main(void) {
  struct slot *s = crashproof_root(sizeof *s);
  if (s->used) {
    if (strcmp(s->text, "a text of more than eight characters") == 0)
      return 0;
    fprintf(stderr, "lost: %.8s\n", s->text);
    exit(1);
  }
  put(s, "a text of more than eight characters\0\0\0\0");
  return 0;
}
