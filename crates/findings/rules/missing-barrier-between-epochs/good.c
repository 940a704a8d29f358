#include <crashproof.h>

static PERSISTENT long record[16];
static PERSISTENT long valid;

int main(void) {
  crashproof_epoch_begin();
  for (int i = 0; i < 16; i++)
    record[i] = i;
  crashproof_flush(record, sizeof record);
  crashproof_epoch_end();
  crashproof_drain();
  crashproof_epoch_begin();
  valid = 1;
  crashproof_flush(&valid, sizeof valid);
  crashproof_epoch_end();
  crashproof_drain();
  return 0;
}
