// A file that exists before the check keeps its content; files that a run creates or removes exist after a
// crash as they did then.
//@ args: {dir}/old {dir}/new {dir}/temporary
//@ cflags: '-DDIR="{dir}"'
//@ file old: durable from the start
//@ prove: skip (prove cannot be given what files hold)
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 4 crash points, 5 recoveries
//@ lint: clean, no warnings
//@ variant plain:
//@ check: fails at LOST
//@ figures: 3 crash points, 6 recoveries
//@ lint: unflushed-write at LOST
//@ variant good-remove: -DGOOD -DREMOVE
//@ check: clean
//@ figures: 8 crash points, 9 recoveries
//@ lint: clean, no warnings
//@ variant good-remove-early: -DGOOD -DREMOVE_EARLY
//@ check: recovery-fails-nothing-lost at recovery-fails-nothing-lost
//@ figures: 8 crash points, 9 recoveries
//@ lint: clean, no warnings
#include <crashproof.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *map(const char *path, int flags) {
  int fd = open(path, O_RDWR | flags, 0600);
  if (fd < 0)
    return NULL;
  crashproof_assert(ftruncate(fd, 8192) == 0);
  char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(p != MAP_FAILED && close(fd) == 0);
  return p;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 4);
  char *old = map(argv[1], 0);
  crashproof_assert(old);
  crashproof_assert(strncmp(old, "durable", 7) == 0); // MARK: claim-violated
  long *state = (long *)(old + 4096);
  if (crashproof_crashes()) {
    char *new = map(argv[2], 0);
    // The new file is there if the old one says so, or was just created.
    crashproof_assert(!*state || new);
    if (!state[64])
      crashproof_assert(!new);
    if (*state == 2)
      crashproof_assert(strcmp(new, "content") == 0);
#ifdef REMOVE_EARLY
    if (*state == 3)
      crashproof_assert(access(argv[3], F_OK) == 0);
#endif
    if (*state == 4) {
      crashproof_assert(access(argv[3], F_OK) != 0 && map(argv[3], 0) == NULL);
      char *again = map(argv[3], O_CREAT | O_EXCL);
      crashproof_assert(again && again[0] == 0);
    }
    return 0;
  }
  // Nothing is lost yet: a crash here must not find the new file.
  state[64] = 1;
  crashproof_persist(&state[64], 8);
  char *new = map(argv[2], O_CREAT | O_EXCL);
  *state = 1;
  crashproof_persist(state, 8);
  strcpy(new, "content"); // MARK: LOST
#ifdef GOOD
  crashproof_persist(new, 8);
#endif
  *state = 2;
  crashproof_persist(state, 8);
#if defined REMOVE || defined REMOVE_EARLY
  char *temporary = map(argv[3], O_CREAT);
  strcpy(temporary, "temporary");
  crashproof_persist(temporary, 16);
  // Names are durable with their directory's fsync.
  int directory = open(DIR, O_RDONLY | O_DIRECTORY);
#ifdef REMOVE_EARLY
  unlink(argv[3]);
  crashproof_assert(directory >= 0 && fsync(directory) == 0);
#endif
  *state = 3; // MARK: recovery-fails-nothing-lost
  crashproof_persist(state, 8); // MARK: REMOVED
#ifndef REMOVE_EARLY
  unlink(argv[3]);
#endif
  crashproof_assert(directory >= 0 && fsync(directory) == 0);
  *state = 4; // MARK: LAST
  crashproof_persist(state, 8);
#endif
  return 0;
}
