/* Reading of standard input and of strings, as the prover executes it. */
#define MODEL __attribute__((weak))
#include <stdarg.h>
typedef unsigned long size_t;

/* Carried out by the prover: a byte of what the program was given to read, or -1. */
int __crashproof_stdin(size_t position);
void __crashproof_not_modeled(const char *what);
void *malloc(size_t bytes);
void *realloc(void *old, size_t bytes);

static char standard_input;
MODEL void *stdin = &standard_input;
static size_t position;
static int closed;

static int next(void *stream) {
  if (stream != &standard_input)
    __crashproof_not_modeled("reading anything but standard input");
  if (closed)
    return -1;
  int byte = __crashproof_stdin(position);
  if (byte >= 0)
    position++;
  return byte;
}
MODEL int fclose(void *stream) {
  if (stream == &standard_input)
    closed = 1;
  return 0;
}
MODEL int fgetc(void *stream) { return next(stream); }
MODEL int getc(void *stream) { return next(stream); }
MODEL int getchar(void) { return next(&standard_input); }
MODEL int feof(void *stream) { return stream == &standard_input && __crashproof_stdin(position) < 0; }

MODEL char *fgets(char *line, int bytes, void *stream) {
  int length = 0;
  while (length < bytes - 1) {
    int byte = next(stream);
    if (byte < 0)
      break;
    line[length++] = (char)byte;
    if (byte == '\n')
      break;
  }
  if (length == 0)
    return 0;
  line[length] = 0;
  return line;
}
MODEL long getline(char **line, size_t *bytes, void *stream) {
  enum { FIRST = 128 };
  if (!*line) {
    *line = malloc(FIRST);
    *bytes = FIRST;
  }
  size_t length = 0;
  for (int byte; (byte = next(stream)) >= 0;) {
    if (length + 2 > *bytes) {
      *bytes *= 2;
      *line = realloc(*line, *bytes);
    }
    (*line)[length++] = (char)byte;
    if (byte == '\n')
      break;
  }
  if (length == 0)
    return -1;
  (*line)[length] = 0;
  return (long)length;
}

/* What a scan reads: a string, or standard input if there is none. */
struct source {
  const char *text;
  int ahead;
};
static int take(struct source *from) {
  if (!from->text)
    return next(&standard_input);
  return *from->text ? (unsigned char)*from->text++ : -1;
}
static int is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int skip(struct source *from) {
  while (is_space(from->ahead))
    from->ahead = take(from);
  return from->ahead;
}

/* A number of at most so many characters; tells whether there is one. */
static int scan_number(struct source *from, int most, int base, unsigned long *value) {
  skip(from);
  int negative = from->ahead == '-', digits = 0;
  if (from->ahead == '-' || from->ahead == '+') {
    from->ahead = take(from);
    most--;
  }
  *value = 0;
  for (; most > 0; most--, digits++) {
    int c = from->ahead, digit = -1;
    if (c >= '0' && c <= '9')
      digit = c - '0';
    else if (base == 16 && c >= 'a' && c <= 'f')
      digit = c - 'a' + 10;
    else if (base == 16 && c >= 'A' && c <= 'F')
      digit = c - 'A' + 10;
    if (digit < 0 || digit >= base)
      break;
    *value = *value * (unsigned long)base + (unsigned long)digit;
    from->ahead = take(from);
  }
  if (negative)
    *value = -*value;
  return digits > 0;
}
static int scan_word(struct source *from, int most, char *to) {
  int length = 0;
  skip(from);
  while (length < most && from->ahead >= 0 && !is_space(from->ahead)) {
    if (to)
      to[length] = (char)from->ahead;
    length++;
    from->ahead = take(from);
  }
  if (to && length)
    to[length] = 0;
  return length > 0;
}
static void assign(void *to, int bytes, unsigned long value) {
  if (bytes == 1)
    *(unsigned char *)to = (unsigned char)value;
  else if (bytes == 2)
    *(unsigned short *)to = (unsigned short)value;
  else if (bytes == 4)
    *(unsigned *)to = (unsigned)value;
  else
    *(unsigned long *)to = value;
}

static int scan(struct source *from, const char *format, va_list list) {
  int assigned = 0;
  from->ahead = take(from);
  for (; *format; format++) {
    if (is_space(*format)) {
      skip(from);
      continue;
    }
    if (*format != '%' || *++format == '%') {
      if (*format == '%')
        skip(from);
      if (from->ahead != (unsigned char)*format)
        break;
      from->ahead = take(from);
      continue;
    }
    int dropped = *format == '*', most = 0, bytes = 4;
    if (dropped)
      format++;
    for (; *format >= '0' && *format <= '9'; format++)
      most = most * 10 + (*format - '0');
    if (*format == 'h') {
      bytes = *++format == 'h' ? 1 : 2;
      if (bytes == 1)
        format++;
    } else {
      for (; *format == 'l' || *format == 'z' || *format == 'j' || *format == 't'; format++)
        bytes = 8;
    }
    void *to = dropped ? 0 : va_arg(list, void *);
    int found;
    unsigned long value;
    switch (*format) {
    case 'd':
    case 'u':
    case 'x':
      found = scan_number(from, most ? most : 1 << 30, *format == 'x' ? 16 : 10, &value);
      if (found && to)
        assign(to, bytes, value);
      break;
    case 's':
      found = scan_word(from, most ? most : 1 << 30, to);
      break;
    case 'c':
      found = from->ahead >= 0;
      if (found && to)
        *(char *)to = (char)from->ahead;
      if (found)
        from->ahead = take(from);
      break;
    default:
      __crashproof_not_modeled("this conversion of scanf");
      return 0;
    }
    if (!found) {
      if (from->ahead < 0 && assigned == 0)
        assigned = -1;
      break;
    }
    assigned += !dropped;
  }
  /* What was looked at and not taken is there for the next call. */
  if (!from->text && from->ahead >= 0)
    position--;
  return assigned;
}

#define SCANNERS(scanf, sscanf)                                                                              \
  MODEL int scanf(const char *format, ...) {                                                                 \
    struct source from = {0, 0};                                                                             \
    va_list list;                                                                                            \
    va_start(list, format);                                                                                  \
    int assigned = scan(&from, format, list);                                                                \
    va_end(list);                                                                                            \
    return assigned;                                                                                         \
  }                                                                                                          \
  MODEL int sscanf(const char *text, const char *format, ...) {                                              \
    struct source from = {text, 0};                                                                          \
    va_list list;                                                                                            \
    va_start(list, format);                                                                                  \
    int assigned = scan(&from, format, list);                                                                \
    va_end(list);                                                                                            \
    return assigned;                                                                                         \
  }
/* scanf(format, ...), sscanf(text, format, ...) */
SCANNERS(scanf, sscanf)
/* As glibc's headers call them: __isoc99_scanf(), __isoc99_sscanf(), __isoc23_scanf(), __isoc23_sscanf() */
SCANNERS(__isoc99_scanf, __isoc99_sscanf)
SCANNERS(__isoc23_scanf, __isoc23_sscanf)
