// The command line of the program: glibc looks for options behind arguments, too.
//@ check: clean
//@ lint: clean, no warnings
//@ variant in-order: -DIN_ORDER
//@ args: -n 3 -xv --name=long rest
//@ prove: proved
//@ variant permuted:
//@ args: -n 3 -xv --name=long rest -y
//@ check: refused (fails without any crash)
//@ prove: refuted at option
#include <crashproof.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
PERSISTENT long reached;
int main(int argc, char *argv[]) {
  static const struct option options[] = {{"name", required_argument, 0, 'l'}, {0, 0, 0, 0}};
  int number = 0, flags = 0;
  const char *name = "";
  for (int option; (option = getopt_long(argc, argv, "n:xvy", options, 0)) != -1;) {
    if (option == 'n')
      number = atoi(optarg);
    else if (option == 'l')
      name = optarg;
    else if (option == 'x' || option == 'v')
      flags++;
    else
      crashproof_assert(0); // MARK: option
  }
  crashproof_assert(number == 3 && flags == 2 && !strcmp(name, "long"));
#ifdef IN_ORDER
  crashproof_assert(!strcmp(argv[optind], "rest") && optind == argc - 1);
#endif
  reached = 1;
  crashproof_persist(&reached, sizeof reached);
  return 0;
}
void recover(void) {}
