#include "pm.h"
struct pool {
  long x __attribute__((aligned(64)));
  long y __attribute__((aligned(64)));
  long old __attribute__((aligned(64)));
  long active __attribute__((aligned(64)));
};

int main(void) {
  struct pool *p = crashproof_root(sizeof *p);
  if (p->active) {
    p->x = p->old;
    persist(&p->x);
    p->active = 0;
    persist(&p->active);
  }
  if (p->x != p->y)
    return 1;
  p->old = p->x;
  persist(&p->old);
  p->active = 1;
  persist(&p->active);
  p->x = 6;
  persist(&p->x);
  p->y = 6;
  persist(&p->y);
  p->active = 0;
  persist(&p->active);
  return 0;
}
