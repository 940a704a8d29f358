// A name on the heap that persistent memory points to: recovery only prints it, through the C library.
//@ lint: skip (where pointers point to is not among its rules)
//@ prove: skip (prove has one address space for all runs)
//@ variant plain:
//@ check: volatile-pointer at kept
//@ variant own: -DOWN
//@ check: clean
#include <crashproof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct user {
  char *name;
  char own[24];
  long id;
};

struct users {
  long count;
  char pad[56];
  struct user all[4];
};

static void add(struct users *users, const char *name) {
  struct user *user = &users->all[users->count];
#ifdef OWN
  strcpy(user->own, name);
  user->name = user->own;
#else
  user->name = strdup(name); // MARK: kept
#endif
  user->id = users->count;
  crashproof_persist(user, sizeof *user);
  users->count++;
  crashproof_persist(&users->count, sizeof users->count);
}

int main(void) {
  struct users *users = crashproof_root(sizeof *users);
  for (long i = 0; i < users->count; i++)
    printf("%s\n", users->all[i].name);
  if (users->count == 0) {
    add(users, "ada");
    add(users, "grace");
  }
  return 0;
}
