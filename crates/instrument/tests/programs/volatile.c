// Volatile memory is silent, except where threads may wait for each other.
#include "test.h"

static int counter;
static volatile int flag;
static _Atomic int lock;
static _Thread_local int mine;

struct node { struct node *next; int value; };

__attribute__((noinline)) static int walk(struct node *n) {
  int sum = 0;
  for (; n; n = n->next) sum += n->value;
  return sum;
}

int main(void) {
  struct node a = {0, 1}, b = {&a, 2};
  int table[10] = {0};
  for (int i = 0; i < 10; i++) table[i] = i * counter;
  counter += walk(&b) + table[5] + mine++;
  flag = 1;
  while (!flag) {}
  lock++;
  lock = 0;
  volatile int local = 3; // nobody else can see it
  return local - counter;
}
