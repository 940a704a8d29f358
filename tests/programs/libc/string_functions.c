// String functions of the C library on PM.
//@ variant good-fno-builtin: -DGOOD -fno-builtin
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ prove: unknown (is not modeled)
//@ variant good-o2-fortify-source-2: -DGOOD -O2 -D_FORTIFY_SOURCE=2
//@ check: clean
//@ figures: 2 crash points, 2 recoveries
//@ lint: clean, no warnings
//@ prove: unknown (such a format of a text is not modeled)
//@ variant fno-builtin: -fno-builtin
//@ check: fails at LOST
//@ figures: 2 crash points, 7 recoveries
//@ lint: unflushed-write at LOST
//@ prove: unknown (is not modeled)
#include <crashproof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct root {
  char name[64], other[64], number[64], list[64], message[64];
  long done;
};

static void verify(struct root *r) {
  crashproof_assert(strcmp(r->name, "alpha beta gam") == 0);
  crashproof_assert(strncmp(r->name, "alpha xyz", 6) == 0);
  crashproof_assert(strcasecmp(r->name, "ALPHA BETA GAM") == 0);
  crashproof_assert(strlen(r->name) == 14 && strnlen(r->name, 5) == 5);
  crashproof_assert(strchr(r->name, 'b') == r->name + 6);
  crashproof_assert(strrchr(r->name, 'a') == r->name + 12);
  crashproof_assert(strchrnul(r->name, 'z') == r->name + 14);
  crashproof_assert(strstr(r->name, "beta") == r->name + 6);
  crashproof_assert(strspn(r->name, "alph") == 5 && strcspn(r->name, "b") == 6);
  crashproof_assert(strpbrk(r->name, "tb") == r->name + 6);
  char *copy = strdup(r->other);
  crashproof_assert(strcmp(copy, "other") == 0);
  free(copy);
  copy = strndup(r->other, 3);
  crashproof_assert(strcmp(copy, "oth") == 0);
  free(copy);
  char *end;
  crashproof_assert(strtol(r->number, &end, 10) == -42 && end == r->number + 5);
  crashproof_assert(strtoul(end, NULL, 16) == 0x1f && atoi(r->number) == -42);
  crashproof_assert(strtod(r->number + 11, NULL) == 2.5);
  crashproof_assert(strcmp(r->message, "alpha beta gam is 7, 2.50 and 1 2 3 4 5") == 0);
  char volatile_copy[64];
  int length = snprintf(volatile_copy, sizeof volatile_copy, "%.5s|%*d|%s", r->name, 3, 9, r->other);
  crashproof_assert(length == 15 && strcmp(volatile_copy, "alpha|  9|other") == 0);
}

int main(void) {
  struct root *r = crashproof_root(sizeof *r);
  if (r->done) {
    verify(r);
    return 0;
  }
  if (crashproof_crashes())
    return 0;
  strcpy(r->name, "alpha");
  strcat(r->name, " beta");
  strncat(r->name, " gamma", 4);
  crashproof_assert(stpcpy(r->other, "oth") == r->other + 3);
  strncpy(r->other + 3, "er", 61);
  strcpy(r->number, "  -42 0x1f 2.5;");
  strcpy(r->list, ",one,,two");
  char *rest;
  crashproof_assert(strtok_r(r->list, ",", &rest) == r->list + 1);
  crashproof_assert(strtok_r(NULL, ",", &rest) == r->list + 6);
  crashproof_assert(strtok_r(NULL, ",", &rest) == NULL);
  crashproof_assert(strcmp(r->list + 1, "one") == 0);
  snprintf(r->message, sizeof r->message, "%s is %d, %.2f and %d %d %d %d %d", r->name, 7, 2.5, 1, 2, 3, 4, 5); // MARK: LOST
#ifdef GOOD
  crashproof_persist(r, sizeof *r);
#else
  crashproof_persist(r, 256);
#endif
  r->done = 1;
  crashproof_persist(&r->done, sizeof r->done);
  verify(r);
  return 0;
}
