// Settings in a mapped file that is written back by msync.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean, no warnings
//@ variant text: -DBUG=1
//@ lint: unflushed-write at text
//@ variant sequence: -DBUG=2
//@ lint: unflushed-write at sequence
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct settings {
  long sequence;
  char pad[4088];
  char text[2][4096];
};

static struct settings *settings_load(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    return 0;
  if (ftruncate(fd, sizeof(struct settings)) < 0)
    return 0;
  struct settings *s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return s == MAP_FAILED ? 0 : s;
}

static void settings_save(struct settings *s, const char *text) {
  char *page = s->text[(s->sequence + 1) % 2];
  strcpy(page, text); // MARK: text
#if BUG != 1
  msync(page, 4096, MS_SYNC);
#endif
  s->sequence++; // MARK: sequence
#if BUG != 2
  msync(s, 4096, MS_SYNC); // MARK: flush-unmodified-2
#endif
}

int main(int argc, char **argv) {
  struct settings *s = settings_load(argv[1]);
  if (!s)
    return 1;
  char text[32];
  if (s->sequence) {
    snprintf(text, sizeof text, "version %ld", s->sequence);
    assert(strcmp(s->text[s->sequence % 2], text) == 0);
  }
  while (s->sequence < 2) {
    snprintf(text, sizeof text, "version %ld", s->sequence + 1);
    settings_save(s, text);
  }
  return 0;
}
