/*
 * Functions of the C library that can be written in C, as the prover executes them. All are weak: a program's own
 * come first.
 */
#define MODEL __attribute__((weak))
typedef unsigned long size_t;

void *malloc(size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

/* Where all bytes are there to be read nothing is gained by stopping early, and going through all of them is certain. Where
   they may not be, as with a length that comes from memory, no more is read than up to the first difference: libraries do
   not read beyond it either. */
int __crashproof_readable(const void *start, size_t bytes);
MODEL int memcmp(const void *left, const void *right, size_t bytes) {
  const unsigned char *a = left, *b = right;
  int result = 0;
  if (!__crashproof_readable(left, bytes) || !__crashproof_readable(right, bytes)) {
    for (size_t i = 0; i < bytes; i++)
      if (a[i] != b[i])
        return a[i] < b[i] ? -1 : 1;
    return 0;
  }
  for (size_t i = bytes; i-- > 0;)
    if (a[i] != b[i])
      result = a[i] < b[i] ? -1 : 1;
  return result;
}
MODEL int bcmp(const void *left, const void *right, size_t bytes) { return memcmp(left, right, bytes); }

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

/* Not all of `from` is read: `stpncpy(to, "ab", 8)` reads three bytes and writes eight. */
MODEL char *stpncpy(char *to, const char *from, size_t most) {
  size_t length = strnlen(from, most);
  strncpy(to, from, most);
  return to + length;
}

MODEL char *stpcpy(char *to, const char *from) {
  size_t i = 0;
  do
    to[i] = from[i];
  while (from[i++]);
  return to + i - 1;
}

MODEL char *strcpy(char *to, const char *from) {
  stpcpy(to, from);
  return to;
}

MODEL size_t strlcpy(char *to, const char *from, size_t bytes) {
  size_t length = strlen(from), i = 0;
  for (; i + 1 < bytes && from[i]; i++)
    to[i] = from[i];
  if (bytes)
    to[i] = 0;
  return length;
}

MODEL size_t strlcat(char *to, const char *from, size_t bytes) {
  size_t length = strnlen(to, bytes);
  return length + strlcpy(to + length, from, bytes - length);
}

MODEL void *memccpy(void *to, const void *from, int last, size_t bytes) {
  unsigned char *target = to;
  const unsigned char *source = from;
  for (size_t i = 0; i < bytes; i++) {
    target[i] = source[i];
    if (source[i] == (unsigned char)last)
      return target + i + 1;
  }
  return 0;
}

MODEL char *strchr(const char *text, int wanted) {
  for (;; text++) {
    if (*text == (char)wanted)
      return (char *)text;
    if (!*text)
      return 0;
  }
}

MODEL char *strchrnul(const char *text, int wanted) {
  while (*text && *text != (char)wanted)
    text++;
  return (char *)text;
}

MODEL char *strrchr(const char *text, int wanted) {
  char *found = 0;
  for (;; text++) {
    if (*text == (char)wanted)
      found = (char *)text;
    if (!*text)
      return found;
  }
}

MODEL char *strstr(const char *text, const char *wanted) {
  size_t length = strlen(wanted);
  for (; strncmp(text, wanted, length) != 0; text++)
    if (!*text)
      return 0;
  return (char *)text;
}

MODEL char *strcat(char *to, const char *from) {
  strcpy(to + strlen(to), from);
  return to;
}

MODEL char *strncat(char *to, const char *from, size_t most) {
  size_t length = strnlen(from, most);
  char *end = to + strlen(to);
  memcpy(end, from, length);
  end[length] = 0;
  return to;
}

MODEL char *strndup(const char *text, size_t most) {
  size_t length = strnlen(text, most);
  char *copy = malloc(length + 1);
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

MODEL char *strdup(const char *text) { return strndup(text, (size_t)-1); }

static size_t span(const char *text, const char *among, int within) {
  size_t length = 0;
  while (text[length] && (strchr(among, text[length]) != 0) == within)
    length++;
  return length;
}
MODEL size_t strspn(const char *text, const char *among) { return span(text, among, 1); }
MODEL size_t strcspn(const char *text, const char *among) { return span(text, among, 0); }

MODEL char *strpbrk(const char *text, const char *among) {
  text += span(text, among, 0);
  return *text ? (char *)text : 0;
}

/* Ends a text here; what follows it. At its very end nothing is written. */
static char *cut(char *end) {
  if (!*end)
    return 0;
  *end = 0;
  return end + 1;
}

MODEL char *strsep(char **rest, const char *separators) {
  char *text = *rest;
  if (!text)
    return 0;
  *rest = cut(text + span(text, separators, 0));
  return text;
}

MODEL char *strtok_r(char *text, const char *separators, char **rest) {
  if (!text)
    text = *rest;
  if (!text)
    return 0;
  text += span(text, separators, 1);
  if (!*text) {
    *rest = 0;
    return 0;
  }
  *rest = cut(text + span(text, separators, 0));
  return text;
}
MODEL char *strtok(char *text, const char *separators) {
  static char *rest;
  return strtok_r(text, separators, &rest);
}

/* What the compiler calls with -D_FORTIFY_SOURCE. That the last argument suffices is not checked: what lies outside of an
   object is an access outside of it. */
MODEL char *__strcpy_chk(char *to, const char *from, size_t room) { return (void)room, strcpy(to, from); }
MODEL char *__stpcpy_chk(char *to, const char *from, size_t room) { return (void)room, stpcpy(to, from); }
MODEL char *__strncpy_chk(char *to, const char *from, size_t most, size_t room) {
  return (void)room, strncpy(to, from, most);
}
MODEL char *__stpncpy_chk(char *to, const char *from, size_t most, size_t room) {
  return (void)room, stpncpy(to, from, most);
}
MODEL char *__strcat_chk(char *to, const char *from, size_t room) { return (void)room, strcat(to, from); }
MODEL char *__strncat_chk(char *to, const char *from, size_t most, size_t room) {
  return (void)room, strncat(to, from, most);
}

MODEL void *memchr(const void *start, int wanted, size_t bytes) {
  const unsigned char *at = start;
  for (size_t i = 0; i < bytes; i++)
    if (at[i] == (unsigned char)wanted)
      return (void *)(at + i);
  return 0;
}

MODEL void *memrchr(const void *start, int wanted, size_t bytes) {
  const unsigned char *at = start;
  while (bytes-- > 0)
    if (at[bytes] == (unsigned char)wanted)
      return (void *)(at + bytes);
  return 0;
}

MODEL void *rawmemchr(const void *start, int wanted) { return memchr(start, wanted, (size_t)-1); }

MODEL void *memmem(const void *start, size_t bytes, const void *wanted, size_t length) {
  const char *at = start;
  for (; bytes >= length; bytes--, at++)
    if (memcmp(at, wanted, length) == 0)
      return (void *)at;
  return 0;
}

static int lower(int c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; }
MODEL int strncasecmp(const char *left, const char *right, size_t most) {
  for (size_t i = 0; i < most; i++) {
    int a = lower((unsigned char)left[i]), b = lower((unsigned char)right[i]);
    if (a != b || !a)
      return a - b;
  }
  return 0;
}
MODEL int strcasecmp(const char *left, const char *right) { return strncasecmp(left, right, (size_t)-1); }

/* The next digit of a number, or -1. */
static int digit_of(char c, int base) {
  int digit = -1;
  if (c >= '0' && c <= '9')
    digit = c - '0';
  else if (c >= 'a' && c <= 'z')
    digit = c - 'a' + 10;
  else if (c >= 'A' && c <= 'Z')
    digit = c - 'A' + 10;
  return digit < base ? digit : -1;
}
static const char *prefix(const char *at, int *base) {
  int hexadecimal = at[0] == '0' && (at[1] == 'x' || at[1] == 'X') && digit_of(at[2], 16) >= 0;
  if ((*base == 0 || *base == 16) && hexadecimal) {
    *base = 16;
    return at + 2;
  }
  if (*base == 0)
    *base = *at == '0' ? 8 : 10;
  return at;
}

/* The size of a number, and whether it is too large for 64 bits. */
static unsigned long number(const char *text, char **end, int base, int *negative, int *too_large) {
  const char *at = text;
  while (*at == ' ' || (*at >= '\t' && *at <= '\r'))
    at++;
  *negative = *at == '-';
  if (*at == '-' || *at == '+')
    at++;
  at = prefix(at, &base);
  const char *digits = at;
  unsigned long value = 0;
  *too_large = 0;
  for (int digit; (digit = digit_of(*at, base)) >= 0; at++) {
    if (value > (~0ul - (unsigned long)digit) / (unsigned long)base)
      *too_large = 1;
    value = value * (unsigned long)base + (unsigned long)digit;
  }
  if (end)
    *end = (char *)(at == digits ? text : at);
  return value;
}

int *__errno_location(void);
enum { RANGE = 34 };
MODEL unsigned long strtoul(const char *text, char **end, int base) {
  int negative, too_large;
  unsigned long value = number(text, end, base, &negative, &too_large);
  if (too_large) {
    *__errno_location() = RANGE;
    return ~0ul;
  }
  return negative ? -value : value;
}
MODEL unsigned long long strtoull(const char *text, char **end, int base) { return strtoul(text, end, base); }

MODEL long strtol(const char *text, char **end, int base) {
  int negative, too_large;
  unsigned long value = number(text, end, base, &negative, &too_large);
  unsigned long most = ~0ul >> 1;
  if (too_large || value > most + (unsigned long)negative) {
    *__errno_location() = RANGE;
    return negative ? (long)(most + 1) : (long)most;
  }
  return negative ? (long)-value : (long)value;
}
MODEL long long strtoll(const char *text, char **end, int base) { return strtol(text, end, base); }

MODEL int atoi(const char *text) { return (int)strtol(text, 0, 10); }
MODEL long atol(const char *text) { return strtol(text, 0, 10); }
MODEL long long atoll(const char *text) { return strtol(text, 0, 10); }

/* `new` and `delete` of C++. */
void free(void *object);
MODEL void *_Znwm(size_t bytes) { return malloc(bytes); }
MODEL void *_Znam(size_t bytes) { return malloc(bytes); }
MODEL void _ZdlPv(void *object) { free(object); }
MODEL void _ZdaPv(void *object) { free(object); }
MODEL void _ZdlPvm(void *object, size_t bytes) { (void)bytes, free(object); }
MODEL void _ZdaPvm(void *object, size_t bytes) { (void)bytes, free(object); }

static _Thread_local int error_number;
MODEL int *__errno_location(void) { return &error_number; }

/* Bits, from 1 on; 0 if there is none. */
MODEL int ffs(int bits) { return bits ? __builtin_ctz((unsigned)bits) + 1 : 0; }
MODEL int ffsl(long bits) { return bits ? __builtin_ctzl((unsigned long)bits) + 1 : 0; }
MODEL int ffsll(long long bits) { return bits ? __builtin_ctzll((unsigned long long)bits) + 1 : 0; }

MODEL int abs(int number) { return number < 0 ? -number : number; }
MODEL long labs(long number) { return number < 0 ? -number : number; }
MODEL long long llabs(long long number) { return number < 0 ? -number : number; }

MODEL void *bsearch(const void *key, const void *array, size_t count, size_t size,
                    int (*compare)(const void *, const void *)) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const char *at = (const char *)array + middle * size;
    int order = compare(key, at);
    if (order == 0)
      return (void *)at;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return 0;
}

/* Characters, as in the C locale. The bits are those of glibc's headers, which programs look at themselves. */
enum { UPPER = 1, LOWER = 2, ALPHA = 4, DIGIT = 8, XDIGIT = 16, SPACE = 32, PRINT = 64, GRAPH = 128,
       BLANK = 256, CNTRL = 512, PUNCT = 1024, ALNUM = 2048 };
/* glibc keeps the first eight kinds in the upper byte. */
static unsigned short as_glibc(unsigned kinds) { return (unsigned short)((kinds & 255) << 8 | kinds >> 8); }
static unsigned kinds_of(int c) {
  int upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
  int hex = digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'), graph = c > ' ' && c < 127;
  unsigned kinds = 0;
  kinds |= upper ? UPPER : 0;
  kinds |= lower ? LOWER : 0;
  kinds |= upper || lower ? ALPHA : 0;
  kinds |= digit ? DIGIT : 0;
  kinds |= hex ? XDIGIT : 0;
  kinds |= c == ' ' || (c >= 9 && c <= 13) ? SPACE : 0;
  kinds |= graph || c == ' ' ? PRINT : 0;
  kinds |= graph ? GRAPH : 0;
  kinds |= c == ' ' || c == 9 ? BLANK : 0;
  kinds |= (c >= 0 && c < 32) || c == 127 ? CNTRL : 0;
  kinds |= graph && !upper && !lower && !digit ? PUNCT : 0;
  kinds |= upper || lower || digit ? ALNUM : 0;
  return kinds;
}
static int has(int c, unsigned kind) { return (kinds_of(c) & kind) != 0; }
MODEL int isupper(int c) { return has(c, UPPER); }
MODEL int islower(int c) { return has(c, LOWER); }
MODEL int isalpha(int c) { return has(c, ALPHA); }
MODEL int isdigit(int c) { return has(c, DIGIT); }
MODEL int isxdigit(int c) { return has(c, XDIGIT); }
MODEL int isspace(int c) { return has(c, SPACE); }
MODEL int isprint(int c) { return has(c, PRINT); }
MODEL int isgraph(int c) { return has(c, GRAPH); }
MODEL int isblank(int c) { return has(c, BLANK); }
MODEL int iscntrl(int c) { return has(c, CNTRL); }
MODEL int ispunct(int c) { return has(c, PUNCT); }
MODEL int isalnum(int c) { return has(c, ALNUM); }
MODEL int toupper(int c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; }
MODEL int tolower(int c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

/* The same as tables, for characters from -128 on; made on first use. */
static unsigned short kinds_table[384];
static const unsigned short *kinds_start;
MODEL const unsigned short **__ctype_b_loc(void) {
  if (!kinds_start) {
    for (int c = 0; c < 128; c++)
      kinds_table[128 + c] = as_glibc(kinds_of(c));
    kinds_start = kinds_table + 128;
  }
  return &kinds_start;
}
