// Tables 3 and 8, obj_pmemlog.c:91, obj_pmemlog_simple.c:207 and 252, by the letter: data and offset of one
// log in different epochs.
//@ flags lint: --pedantic
//@ check: skip (a fragment: it has no main)
//@ lint: split-update at split-update
//@ prove: skip (a fragment: it has no main)
#include "pmdk.h"

struct log {
  uint64_t write_offset;
  char pad[56];
  char data[4096];
};

void append(PMEMobjpool *pop, struct log *log, const void *buf) {
  pmemobj_memcpy_persist(pop, log->data, buf, 100);
  log->write_offset = 100; // MARK: split-update
  pmemobj_persist(pop, &log->write_offset, sizeof log->write_offset);
}
