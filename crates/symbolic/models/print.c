/* Writing to strings, as the prover executes it: whole numbers, characters and strings. */
#define MODEL __attribute__((weak))
#include <stdarg.h>
typedef unsigned long size_t;

void __crashproof_not_modeled(const char *what);

/* Where the text goes: as much of it as there is room for, while all of it is counted. */
struct text {
  char *start;
  size_t room, length;
};
static void put(struct text *text, char byte) {
  if (text->length + 1 < text->room)
    text->start[text->length] = byte;
  text->length++;
}
static void pad(struct text *text, long count, char with) {
  for (; count > 0; count--)
    put(text, with);
}

/* How something is to be written. */
struct field {
  int left, zeros, sign, space, alternative;
  long width, precision;
};
static void put_padded(struct text *text, const struct field *field, const char *bytes, long length) {
  if (!field->left)
    pad(text, field->width - length, ' ');
  for (long i = 0; i < length; i++)
    put(text, bytes[i]);
  if (field->left)
    pad(text, field->width - length, ' ');
}

/* Digits come out last first, so they are written into the end of a buffer. */
static void put_number(struct text *text, struct field *field, unsigned long value, unsigned base, const char *digits,
                       const char *prefix) {
  enum { MOST = 64 };
  char buffer[2 * MOST];
  long at = sizeof buffer;
  int prefixed = value || !field->alternative;
  if (value || field->precision)
    do
      buffer[--at] = digits[value % base];
    while (value /= base);
  long least = field->precision;
  long signs = !prefixed || !prefix[0] ? 0 : prefix[1] ? 2 : 1;
  if (least < 0)
    least = field->zeros && !field->left ? field->width - signs : 0;
  if (least > MOST)
    __crashproof_not_modeled("a number of so many digits");
  while ((long)sizeof buffer - at < least)
    buffer[--at] = '0';
  for (long i = signs; i > 0; i--)
    buffer[--at] = prefix[i - 1];
  put_padded(text, field, buffer + at, (long)sizeof buffer - at);
}

static long number(const char **format, va_list *list) {
  if (**format == '*') {
    ++*format;
    return va_arg(*list, int);
  }
  long value = 0;
  for (; **format >= '0' && **format <= '9'; ++*format)
    value = 10 * value + (**format - '0');
  return value;
}

static struct field read_field(const char **format, va_list *list) {
  struct field field = {.precision = -1};
  for (;; ++*format) {
    if (**format == '-')
      field.left = 1;
    else if (**format == '0')
      field.zeros = 1;
    else if (**format == '+')
      field.sign = 1;
    else if (**format == ' ')
      field.space = 1;
    else if (**format == '#')
      field.alternative = 1;
    else
      break;
  }
  field.width = number(format, list);
  if (field.width < 0) {
    field.left = 1;
    field.width = -field.width;
  }
  if (**format == '.') {
    ++*format;
    field.precision = number(format, list);
  }
  return field;
}

/* Bytes of the argument, by the letters before the conversion. */
static int read_size(const char **format) {
  int bytes = 4;
  for (;; ++*format) {
    if (**format == 'h')
      bytes /= 2;
    else if (**format == 'l' || **format == 'z' || **format == 'j' || **format == 't')
      bytes = 8;
    else
      return bytes;
  }
}

static void put_signed(struct text *text, struct field *field, long value) {
  const char *prefix = value < 0 ? "-" : field->sign ? "+" : field->space ? " " : "";
  field->alternative = 0;
  put_number(text, field, value < 0 ? -(unsigned long)value : (unsigned long)value, 10, "0123456789", prefix);
}
static unsigned long unsigned_argument(va_list *list, int bytes) {
  if (bytes == 8)
    return va_arg(*list, unsigned long);
  unsigned value = va_arg(*list, unsigned);
  return bytes == 1 ? (unsigned char)value : bytes == 2 ? (unsigned short)value : value;
}
static void put_string(struct text *text, const struct field *field, const char *string) {
  long length = 0;
  if (!string)
    string = "(null)";
  while ((field->precision < 0 || length < field->precision) && string[length])
    length++;
  put_padded(text, field, string, length);
}

static void convert(struct text *text, const char **format, va_list *list) {
  struct field field = read_field(format, list);
  int bytes = read_size(format);
  char letter = *(*format)++;
  switch (letter) {
  case '%':
    put(text, '%');
    return;
  case 'c': {
    char byte = (char)va_arg(*list, int);
    put_padded(text, &field, &byte, 1);
    return;
  }
  case 's':
    put_string(text, &field, va_arg(*list, const char *));
    return;
  case 'd':
  case 'i': {
    long value = (long)unsigned_argument(list, bytes);
    put_signed(text, &field, bytes == 8 ? value : bytes == 4 ? (int)value : bytes == 2 ? (short)value : (signed char)value);
    return;
  }
  case 'u':
    field.alternative = 0;
    put_number(text, &field, unsigned_argument(list, bytes), 10, "0123456789", "");
    return;
  case 'o':
    if (field.alternative)
      __crashproof_not_modeled("`%#o`");
    put_number(text, &field, unsigned_argument(list, bytes), 8, "01234567", "");
    return;
  case 'x':
    put_number(text, &field, unsigned_argument(list, bytes), 16, "0123456789abcdef", field.alternative ? "0x" : "");
    return;
  case 'X':
    put_number(text, &field, unsigned_argument(list, bytes), 16, "0123456789ABCDEF", field.alternative ? "0X" : "");
    return;
  case 'p':
    field.alternative = 1;
    put_number(text, &field, va_arg(*list, unsigned long), 16, "0123456789abcdef", "0x");
    return;
  default:
    __crashproof_not_modeled("such a format of a text");
  }
}

static int print(char *start, size_t room, const char *format, va_list *list) {
  struct text text = {start, room, 0};
  while (*format) {
    char byte = *format++;
    if (byte == '%')
      convert(&text, &format, list);
    else
      put(&text, byte);
  }
  if (room)
    start[text.length < room ? text.length : room - 1] = 0;
  return (int)text.length;
}

MODEL int vsnprintf(char *start, size_t room, const char *format, va_list list) {
  va_list copy;
  va_copy(copy, list);
  int length = print(start, room, format, &copy);
  va_end(copy);
  return length;
}
MODEL int snprintf(char *start, size_t room, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int length = print(start, room, format, &list);
  va_end(list);
  return length;
}
MODEL int vsprintf(char *start, const char *format, va_list list) { return vsnprintf(start, ~0ul, format, list); }
MODEL int sprintf(char *start, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int length = print(start, ~0ul, format, &list);
  va_end(list);
  return length;
}

/* What the compiler calls with -D_FORTIFY_SOURCE. */
MODEL int __vsnprintf_chk(char *start, size_t room, int flag, size_t whole, const char *format, va_list list) {
  return (void)flag, (void)whole, vsnprintf(start, room, format, list);
}
MODEL int __snprintf_chk(char *start, size_t room, int flag, size_t whole, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int length = __vsnprintf_chk(start, room, flag, whole, format, list);
  va_end(list);
  return length;
}
MODEL int __vsprintf_chk(char *start, int flag, size_t whole, const char *format, va_list list) {
  return __vsnprintf_chk(start, ~0ul, flag, whole, format, list);
}
MODEL int __sprintf_chk(char *start, int flag, size_t whole, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int length = __vsprintf_chk(start, flag, whole, format, list);
  va_end(list);
  return length;
}
