/* Options of a command line, as the prover executes it. Words that are no options go behind them, as with glibc. */
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

/* How many words in front of the next one are no options. */
static int skipped;

/* Moves a word to the front of those that were skipped, as glibc does, and goes on behind it. */
static char *take(char *const *argv, int from) {
  char **words = (char **)argv, *word = words[from];
  for (int i = from; i > optind; i--)
    words[i] = words[i - 1];
  words[optind++] = word;
  return word;
}
static int is_option(const char *word) { return word[0] == '-' && word[1] != 0; }

static int long_option(int argc, char *const *argv, char *word, const struct option *options, int *which) {
  const char *value = strchr(word, '=');
  size_t length = value ? (size_t)(value - word) : strlen(word);
  for (int i = 0; options && options[i].name; i++) {
    if (strncmp(options[i].name, word, length) != 0 || options[i].name[length])
      continue;
    if (value)
      optarg = (char *)value + 1;
    else if (options[i].has_arg == 1 && optind + skipped < argc)
      optarg = take(argv, optind + skipped);
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
    for (skipped = 0; optind + skipped < argc && !is_option(argv[optind + skipped]); skipped++) {
      if (letters[0] == '+')
        return -1;
      if (letters[0] == '-') {
        optarg = argv[optind++];
        return 1;
      }
    }
    if (optind + skipped >= argc)
      return -1;
    char *word = take(argv, optind + skipped);
    if (strcmp(word, "--") == 0)
      return -1;
    if (word[1] == '-')
      return long_option(argc, argv, word + 2, options, which);
    rest = word + 1;
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
    } else if (optind + skipped < argc) {
      optarg = take(argv, optind + skipped);
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
