#include "pm.h"
#define SET(object, value) do { (object) = (value); flush(&(object)); } while (0)
struct entry { long key __attribute__((aligned(64))); char value[64] __attribute__((aligned(64))); };
struct table { long count __attribute__((aligned(64))); struct entry entries[4]; };

int main(void) {
  struct table *t = crashproof_root(sizeof *t);
  for (long i = 0; i < t->count; i++)
    if (t->entries[i].value[0] == 0)
      return 1;
  struct entry *e = &t->entries[t->count];
  strcpy(e->value, "text");
  SET(e->key, 3);
  fence();
  SET(t->count, t->count + 1);
  fence();
  return 0;
}
