#include <crashproof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct data {
  long value __attribute__((aligned(64)));
  long other __attribute__((aligned(64)));
  char text[40];
  long valid __attribute__((aligned(64)));
  long *pointer __attribute__((aligned(64)));
};

#define flush(p) crashproof_flush(p, 8)
#define fence() crashproof_drain()
#define persist(p) crashproof_persist(p, 8)
