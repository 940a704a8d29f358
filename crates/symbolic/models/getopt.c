/* Options of a command line, as the prover executes it: in the order they are given, ended by the first other word. */
#define MODEL __attribute__((weak))
typedef unsigned long size_t;
size_t strlen(const char *text);
char *strchr(const char *text, int wanted);
int strcmp(const char *left, const char *right);
int strncmp(const char *left, const char *right, size_t most);

MODEL char *optarg;
MODEL int optind = 1, opterr = 1, optopt;
/* The rest of a word with several options. */
static char *rest;

struct option {
  const char *name;
  int has_arg, *flag, val;
};

static int long_option(int argc, char *const *argv, const struct option *options, int *which) {
  const char *word = argv[optind++] + 2;
  const char *value = strchr(word, '=');
  size_t length = value ? (size_t)(value - word) : strlen(word);
  for (int i = 0; options && options[i].name; i++) {
    if (strncmp(options[i].name, word, length) != 0 || options[i].name[length])
      continue;
    if (value)
      optarg = (char *)value + 1;
    else if (options[i].has_arg == 1 && optind < argc)
      optarg = argv[optind++];
    else if (options[i].has_arg == 1)
      return '?';
    if (which)
      *which = i;
    if (!options[i].flag)
      return options[i].val;
    *options[i].flag = options[i].val;
    return 0;
  }
  return '?';
}
static int next(int argc, char *const *argv, const char *letters, const struct option *options, int *which) {
  optarg = 0;
  if (optind == 0) {
    optind = 1;
    rest = 0;
  }
  if (!rest || !*rest) {
    if (optind >= argc || argv[optind][0] != '-' || argv[optind][1] == 0)
      return -1;
    if (strcmp(argv[optind], "--") == 0) {
      optind++;
      return -1;
    }
    if (argv[optind][1] == '-')
      return long_option(argc, argv, options, which);
    rest = argv[optind++] + 1;
  }
  char letter = *rest++;
  const char *found = letter == ':' ? 0 : strchr(letters, letter);
  if (!found) {
    optopt = letter;
    return '?';
  }
  if (found[1] == ':') {
    if (*rest || found[2] == ':') {
      optarg = *rest ? rest : 0;
    } else if (optind < argc) {
      optarg = argv[optind++];
    } else {
      optopt = letter;
      return letters[0] == ':' ? ':' : '?';
    }
    rest = 0;
  }
  return letter;
}
MODEL int getopt(int argc, char *const argv[], const char *letters) { return next(argc, argv, letters, 0, 0); }
MODEL int getopt_long(int argc, char *const argv[], const char *letters, const struct option *options, int *which) {
  return next(argc, argv, letters, options, which);
}
