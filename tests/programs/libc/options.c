// The command line of the program: glibc looks for options behind arguments, too.
//@ args: -n 3 -xv rest --name=long more -m 5 -y
//@ check: vacuous
//@ lint: vacuous
//@ prove: vacuous
#include <crashproof.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char *argv[]) {
  static const struct option options[] = {{"name", required_argument, 0, 'l'}, {0, 0, 0, 0}};
  int number = 0, flags = 0;
  const char *name = "";
  for (int option; (option = getopt_long(argc, argv, "n:m:xvy", options, 0)) != -1;) {
    if (option == 'n')
      number = atoi(optarg);
    else if (option == 'l')
      name = optarg;
    else if (option == 'm')
      number += atoi(optarg);
    else if (option == 'x' || option == 'v' || option == 'y')
      flags++;
    else
      crashproof_assert(0); // MARK: option
  }
  crashproof_assert(number == 8 && flags == 3 && !strcmp(name, "long"));
  crashproof_assert(!strcmp(argv[optind], "rest") && !strcmp(argv[optind + 1], "more") && optind == argc - 2);
  return 0;
}
void recover(void) {}
