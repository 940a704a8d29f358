// What the program reads is what it was given.
//@ stdin: 12 word\nsecond line\nlast\n
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <stdio.h>
#include <string.h>
PERSISTENT long reached;
int main(void) {
  int number;
  char word[16], line[16], *long_line = 0;
  size_t size = 0;
  crashproof_assert(scanf("%d %9s", &number, word) == 2 && number == 12 && !strcmp(word, "word"));
  crashproof_assert(getchar() == '\n');
  crashproof_assert(fgets(line, sizeof line, stdin) && !strcmp(line, "second line\n"));
  crashproof_assert(getline(&long_line, &size, stdin) == 5 && !strcmp(long_line, "last\n"));
  crashproof_assert(!fgets(line, sizeof line, stdin));
  reached = 1;
  crashproof_persist(&reached, sizeof reached);
  return 0;
}
void recover(void) {}
