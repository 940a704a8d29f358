// A configuration that was written once is replaced the same way: the new file has the name that the old one had while it was
// written, and is another file. Who wrote the first is a run before the check, or a child.
//@ flags check: --medium disk --setup "{program} {dir} 1"
//@ args: {dir} 2
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD
//@ check: clean
//@ variant no-fsync:
//@ check: fails at WRITTEN
//@ variant child-good: -DGOOD -DCHILD
//@ check: clean
//@ variant child: -DCHILD
//@ check: fails at WRITTEN
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int replace(const char *now, const char *fresh, const char *text, int durable) {
  int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) // MARK: WRITTEN
    return 0;
  if (durable && fsync(fd))
    return 0;
  close(fd);
  return !rename(fresh, now);
}

int main(int argc, char **argv) {
  crashproof_assert(argc == 3);
  char now[4096], fresh[4096], text[64] = "", found[64] = "";
  snprintf(now, sizeof now, "%s/config", argv[1]);
  snprintf(fresh, sizeof fresh, "%s/config.new", argv[1]);
  snprintf(text, sizeof text, "generation = %s\n", argv[2]);
  int first = strcmp(argv[2], "1") == 0;
  if (!first) {
    int fd = open(now, O_RDONLY);
    crashproof_assert(fd >= 0);
    crashproof_assert(read(fd, found, sizeof found) == (ssize_t)strlen(text) && !strncmp(found, text, 12));
    close(fd);
  }
  if (crashproof_crashes())
    return 0;
#ifdef CHILD
  if (!first) {
    pid_t child = fork();
    if (child == 0)
      _exit(replace(now, fresh, "generation = 7\n", 1) ? 0 : 1);
    int status = 1;
    crashproof_assert(waitpid(child, &status, 0) == child && status == 0);
  }
#endif
#ifdef GOOD
  crashproof_assert(replace(now, fresh, text, 1));
#else
  crashproof_assert(replace(now, fresh, text, first));
#endif
  return 0;
}
