// The command line of the program.
//@ args: -n 3 -xv --name=long rest -y
//@ prove: proved
//@ check: refused (fails without any crash)
//@ lint: clean, no warnings
#include <crashproof.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
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
      crashproof_assert(0);
  }
  crashproof_assert(number == 3 && flags == 2 && !strcmp(name, "long"));
  crashproof_assert(!strcmp(argv[optind], "rest") && optind == argc - 2);
  return 0;
}
void recover(void) {}
