// A log in segments: recovery lists the directory and wants every segment up to the newest to be whole.
//@ flags check: --medium disk
//@ cflags: '-DDIRECTORY="{dir}"'
//@ args: x
//@ prove: skip (prove has no disks)
//@ lint: skip (nothing is mapped)
//@ variant good: -DGOOD
//@ check: clean
//@ variant next-too-early:
//@ check: fails at SEGMENT
#include <crashproof.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int newest(void) {
  int last = -1;
  DIR *directory = opendir(DIRECTORY);
  crashproof_assert(directory);
  for (struct dirent *entry; (entry = readdir(directory));)
    if (strncmp(entry->d_name, "segment.", 8) == 0 && atoi(entry->d_name + 8) > last)
      last = atoi(entry->d_name + 8);
  closedir(directory);
  return last;
}

static int open_segment(int number, int flags) {
  char path[256];
  snprintf(path, sizeof path, "%s/segment.%d", DIRECTORY, number);
  return open(path, flags, 0644);
}

int main(void) {
  int last = newest();
  for (int number = 0; number < last; number++) {
    char text[8] = "";
    int fd = open_segment(number, O_RDONLY);
    crashproof_assert(fd >= 0 && read(fd, text, 6) == 6 && memcmp(text, "closed", 6) == 0 && close(fd) == 0);
  }
  if (crashproof_crashes())
    return 0;
  for (int number = 0; number < 3; number++) {
    int fd = open_segment(number, O_WRONLY | O_CREAT | O_EXCL);
    crashproof_assert(fd >= 0 && write(fd, "closed", 6) == 6); // MARK: SEGMENT
#ifdef GOOD
    crashproof_assert(fsync(fd) == 0);
#endif
    close(fd);
  }
  return 0;
}
