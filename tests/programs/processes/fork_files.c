// A forked child writes a file and gives it its name; the parent makes the name durable, and says so in another file.
//@ flags check: --medium disk
//@ args: {dir}
//@ lint: skip (about files)
//@ prove: skip (about files)
//@ variant good:
//@ check: clean
//@ variant bad: -DBAD
//@ check: recovery-fails at content
//@ variant unnamed: -DUNNAMED
//@ check: recovery-fails at name
#include <crashproof.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  crashproof_assert(argc == 2 && chdir(argv[1]) == 0);
  int directory = open(".", O_RDONLY | O_DIRECTORY);
  int said = open("said", O_RDWR | O_CREAT, 0600);
  crashproof_assert(directory >= 0 && said >= 0 && fsync(directory) == 0);
  char text[8] = "";
  int data = open("data", O_RDONLY);
  if (pread(said, text, 1, 0) == 1 && text[0] == '1') {
    crashproof_assert(data >= 0 && read(data, text, 5) == 5 && memcmp(text, "hello", 5) == 0);
    return 0;
  }
  if (data >= 0)
    return 0;
  if (fork() == 0) {
    int file = open("new", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    crashproof_assert(write(file, "hello", 5) == 5); // MARK: content
#ifndef BAD
    crashproof_assert(fsync(file) == 0);
#endif
    _exit(rename("new", "data") != 0); // MARK: name
  }
  int status;
  crashproof_assert(wait(&status) > 0 && status == 0 && access("data", F_OK) == 0);
#ifndef UNNAMED
  crashproof_assert(fsync(directory) == 0);
#endif
  crashproof_assert(pwrite(said, "1", 1, 0) == 1 && fsync(said) == 0);
  return 0;
}
