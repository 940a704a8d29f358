// A string of any length, flushed with its array.
//@ check: skip (a fragment: it has no main)
//@ lint: missing-barrier at missing-barrier
//@ prove: skip (a fragment: it has no main)
#include "raw.h"

struct item {
  uint64_t id;
  char name[120];
};

PERSISTENT static struct item item;

void rename_item(const char *name) {
  strcpy(item.name, name);
  flush(item.name, sizeof item.name); // MARK: missing-barrier
}
