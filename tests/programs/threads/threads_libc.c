// The C library's functions and msync on PM from several threads, with their store buffers.
//@ args: {dir}/pool
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 15 crash points, 4 recoveries
//@ lint: clean
//@ prove: skip (too large to prove in a test)
//@ variant plain:
//@ check: recovery-fails at LOST
//@ figures: 6 crash points, 7 recoveries
//@ lint: unflushed-write at LOST (known wrong: memory handed to a thread is not followed)
//@ prove: refuted (strcmp)
#include <crashproof.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct part {
  char text[4096];
  long done[512];
};

static struct part *parts;

static void *work(void *argument) {
  struct part *part = argument;
  strcpy(part->text, "first");
  char copy[64];
  snprintf(copy, sizeof copy, "%s and last", part->text);
  memcpy(part->text, copy, strlen(copy) + 1); // MARK: LOST
  crashproof_assert(strlen(part->text) == 14);
#ifdef GOOD
  crashproof_assert(msync(part->text, 4096, MS_SYNC) == 0);
#endif
  part->done[0] = 1;
  crashproof_assert(msync(part->done, 4096, MS_SYNC) == 0);
  return NULL;
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 2);
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  crashproof_assert(ftruncate(fd, 2 * sizeof *parts) == 0);
  parts = mmap(NULL, 2 * sizeof *parts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  crashproof_assert(parts != MAP_FAILED);
  if (crashproof_crashes()) {
    for (int i = 0; i < 2; i++)
      crashproof_assert(!parts[i].done[0] || strcmp(parts[i].text, "first and last") == 0);
    return 0;
  }
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, work, &parts[i]);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
