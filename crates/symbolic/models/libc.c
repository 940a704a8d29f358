/*
 * Functions of the C library that can be written in C, as the prover executes them. All are weak: a program's own
 * come first.
 */
#define MODEL __attribute__((weak))
typedef unsigned long size_t;

MODEL int memcmp(const void *left, const void *right, size_t bytes) {
  const unsigned char *a = left, *b = right;
  for (size_t i = 0; i < bytes; i++)
    if (a[i] != b[i])
      return a[i] < b[i] ? -1 : 1;
  return 0;
}

MODEL size_t strlen(const char *text) {
  size_t length = 0;
  while (text[length])
    length++;
  return length;
}

MODEL size_t strnlen(const char *text, size_t most) {
  size_t length = 0;
  while (length < most && text[length])
    length++;
  return length;
}

MODEL int strncmp(const char *left, const char *right, size_t most) {
  for (size_t i = 0; i < most; i++) {
    unsigned char a = (unsigned char)left[i], b = (unsigned char)right[i];
    if (a != b)
      return a < b ? -1 : 1;
    if (!a)
      return 0;
  }
  return 0;
}

MODEL int strcmp(const char *left, const char *right) { return strncmp(left, right, (size_t)-1); }

MODEL char *strncpy(char *to, const char *from, size_t most) {
  size_t i = 0;
  for (; i < most && from[i]; i++)
    to[i] = from[i];
  for (; i < most; i++)
    to[i] = 0;
  return to;
}

MODEL char *strcpy(char *to, const char *from) {
  size_t i = 0;
  do
    to[i] = from[i];
  while (from[i++]);
  return to;
}

MODEL char *strchr(const char *text, int wanted) {
  for (;; text++) {
    if (*text == (char)wanted)
      return (char *)text;
    if (!*text)
      return 0;
  }
}

MODEL long strtol(const char *text, char **end, int base) {
  const char *at = text;
  while (*at == ' ' || (*at >= '\t' && *at <= '\r'))
    at++;
  int negative = *at == '-';
  if (*at == '-' || *at == '+')
    at++;
  if (base == 0)
    base = 10;
  const char *digits = at;
  long value = 0;
  for (;; at++) {
    int digit;
    if (*at >= '0' && *at <= '9')
      digit = *at - '0';
    else if (*at >= 'a' && *at <= 'z')
      digit = *at - 'a' + 10;
    else if (*at >= 'A' && *at <= 'Z')
      digit = *at - 'A' + 10;
    else
      break;
    if (digit >= base)
      break;
    value = value * base + digit;
  }
  if (end)
    *end = (char *)(at == digits ? text : at);
  return negative ? -value : value;
}

MODEL int atoi(const char *text) { return (int)strtol(text, 0, 10); }
MODEL long atol(const char *text) { return strtol(text, 0, 10); }

static _Thread_local int error_number;
MODEL int *__errno_location(void) { return &error_number; }
