// Functions of the C library for strings and numbers.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
PERSISTENT long reached;
int main(void) {
  char line[32] = "one,two;;three";
  crashproof_assert(!strcmp(strtok(line, ",;"), "one") && !strcmp(strtok(0, ",;"), "two"));
  crashproof_assert(!strcmp(strtok(0, ",;"), "three") && !strtok(0, ",;"));
  char *copy = strdup("copy"), *end;
  crashproof_assert(!strcmp(copy, "copy") && strrchr("a/b/c", '/')[1] == 'c' && !strstr("abc", "bd"));
  crashproof_assert(!strcmp(strstr("abcd", "cd"), "cd") && strspn("aab", "a") == 2 && strcspn("aab", "b") == 2);
  copy = realloc(copy, 16);
  crashproof_assert(!strcmp(strcat(copy, "-more"), "copy-more"));
  crashproof_assert(!strcasecmp("AbC", "aBc") && memchr("xyz", 'z', 3) && !memchr("xyz", 'z', 2));
  crashproof_assert(strtol(" -12x", &end, 10) == -12 && *end == 'x' && strtol("0x1F", 0, 0) == 31);
  crashproof_assert(strtol("010", 0, 0) == 8 && atoi("42") == 42 && atoll("-7") == -7);
  errno = 0;
  crashproof_assert(strtoull("18446744073709551615", 0, 10) == ~0ull && errno == 0);
  crashproof_assert(strtoull("18446744073709551616", 0, 10) == ~0ull && errno == ERANGE);
  int number;
  unsigned long large;
  char word[8], letter;
  crashproof_assert(sscanf("7 words: 99x", "%d %7s %lu%c", &number, word, &large, &letter) == 4);
  crashproof_assert(number == 7 && !strcmp(word, "words:") && large == 99 && letter == 'x');
  crashproof_assert(sscanf("", "%d", &number) == -1 && sscanf("a", "%d", &number) == 0);
  crashproof_assert(rand() >= 0);
  reached = 1;
  crashproof_persist(&reached, sizeof reached);
  return 0;
}
void recover(void) {}
