// As pmemlog-split-update.bad.c, in a transaction.
//@ flags lint: --pedantic
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct log {
  uint64_t write_offset;
  char pad[56];
  char data[100];
};

void append(PMEMobjpool *pop, struct log *log, const char *buf) {
  TX_BEGIN(pop) {
    pmemobj_tx_add_range_direct(log->data, sizeof log->data);
    pmemobj_tx_add_range_direct(&log->write_offset, sizeof log->write_offset);
    __builtin_memcpy(log->data, buf, sizeof log->data);
    log->write_offset = sizeof log->data;
  } TX_END
}
