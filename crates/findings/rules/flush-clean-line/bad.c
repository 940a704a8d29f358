#include <crashproof.h>

struct record {
  char text[64];
  long length;
};

int main(void) {
  struct record *record = crashproof_root(sizeof *record);
  record->length = 0;
  crashproof_persist(record, sizeof *record); /* two lines, of which one was stored to */
  return 0;
}
