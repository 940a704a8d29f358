// Any number of arguments, of several types, also handed on.
//@ check: clean
//@ lint: clean, no warnings
//@ prove: proved
#include <crashproof.h>
#include <stdarg.h>
PERSISTENT long reached;
static long sum(int count, va_list list) {
  long total = 0;
  for (int i = 0; i < count; i++)
    total += va_arg(list, long);
  return total;
}
static long total(int count, ...) {
  va_list list, again;
  va_start(list, count);
  va_copy(again, list);
  long first = sum(count, list), second = sum(count, again);
  va_end(again);
  va_end(list);
  crashproof_assert(first == second);
  return first;
}
static int mixed(const char *format, ...) {
  va_list list;
  va_start(list, format);
  int number = va_arg(list, int);
  double real = va_arg(list, double);
  const char *text = va_arg(list, char *);
  va_end(list);
  (void)real;
  return number == -3 && text[1] == 'b';
}
int main(void) {
  crashproof_assert(total(0) == 0 && total(3, 1L, 2L, 3L) == 6);
  crashproof_assert(total(9, 1L, 1L, 1L, 1L, 1L, 1L, 1L, 1L, 1L) == 9);
  crashproof_assert(mixed("", -3, 2.5, "abc"));
  reached = 1;
  crashproof_persist(&reached, sizeof reached);
  return 0;
}
void recover(void) {}
