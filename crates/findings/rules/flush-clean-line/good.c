#include <crashproof.h>

struct record {
  char text[64];
  long length;
};

int main(void) {
  struct record *record = crashproof_root(sizeof *record);
  record->length = 0;
  crashproof_persist(&record->length, sizeof record->length);
  return 0;
}
