// A function without code or description may do anything to the memory it is given, also through a structure.
//@ prove: unknown
//@ variant given: -DGIVEN
//@ check: skip (the function is in no library)
//@ lint: unknown (PM passed to the unknown function `write_back`)
//@ variant through: -DTHROUGH
//@ check: skip (the function is in no library)
//@ lint: unknown (PM passed to the unknown function `submit`)
//@ variant elsewhere: -DELSEWHERE
//@ check: skip (the function is in no library)
//@ lint: clean
#include <crashproof.h>

struct request {
  long length;
  long *target;
};
void write_back(void *line);
void submit(struct request *request);
void report(const char *text);

PERSISTENT long value __attribute__((aligned(64)));

int main(void) {
  value = 1;
#if defined GIVEN
  write_back(&value);
#elif defined THROUGH
  struct request request = {8, &value};
  submit(&request);
#else
  report("stored");
#endif
  crashproof_persist(&value, sizeof value);
  return 0;
}
