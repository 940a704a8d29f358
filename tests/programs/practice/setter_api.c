// Setters leave the write-back to whoever calls them.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant forgot: -DBUG=1
//@ lint: unflushed-write at name
//@ lint: unflushed-write at age
//@ variant state: -DBUG=2
//@ lint: unflushed-write at state
//@ variant early: -DBUG=3
//@ lint: unflushed-write at name
//@ lint: unflushed-write at age
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

enum state { EMPTY, READY };

typedef struct person {
  char name[60];
  int age;
  enum state state;
  char pad[60];
} person_t;

static void pm_persist(void *addr, size_t len) {
  for (char *p = (char *)((uintptr_t)addr & ~63ul); p < (char *)addr + len; p += 64)
    _mm_clwb(p);
  _mm_sfence();
}

static void person_set_name(person_t *p, const char *name) {
  snprintf(p->name, sizeof p->name, "%s", name); // MARK: name
}
static void person_set_age(person_t *p, int age) {
  p->age = age; // MARK: age
}
static void person_set_state(person_t *p, enum state state) {
  p->state = state; // MARK: state
}

static person_t *people_map(const char *path, size_t count) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    return NULL;
  if (ftruncate(fd, (off_t)(count * sizeof(person_t))) != 0) {
    close(fd);
    return NULL;
  }
  person_t *people = mmap(NULL, count * sizeof(person_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return people == MAP_FAILED ? NULL : people;
}

static int person_create(person_t *p, const char *name, int age) {
  person_set_name(p, name);
  person_set_age(p, age);
#if BUG == 3
  if (age > 100)
    return -1;
#endif
#if BUG != 1
  pm_persist(p, sizeof *p);
#endif
  person_set_state(p, READY);
#if BUG != 2
  pm_persist(&p->state, sizeof p->state);
#endif
  return 0;
}

int main(int argc, char **argv) {
  person_t *people = people_map(argv[1], 8);
  if (!people)
    return 1;
  for (int i = 0; i < 2; i++) {
    if (people[i].state == READY)
      assert(people[i].age == 30 + i && people[i].name[0] == 'p');
    else
      person_create(&people[i], "person", argc > 5 ? argc * 100 : 30 + i);
  }
  return 0;
}
