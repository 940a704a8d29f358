/*
 * A redo log without any flush between its entries and its header: a checksum over the entries tells recovery
 * whether they all arrived. Recovery reads lines that may hold anything, and must not trust any of them before
 * the checksum matched.
 */
#include <crashproof.h>

#define ENTRIES 4

struct log {
  unsigned long count, checksum;
  struct {
    unsigned long slot, value;
  } entry[ENTRIES];
} __attribute__((aligned(64)));

struct store {
  unsigned long slot[ENTRIES] __attribute__((aligned(64)));
  unsigned long done;
  struct log log;
};

static unsigned long checksum(const struct log *log, unsigned long count) {
  unsigned long sum = 14695981039346656037ul ^ count;
  for (unsigned long i = 0; i < count; i++) {
    sum = (sum ^ log->entry[i].slot) * 1099511628211ul;
    sum = (sum ^ log->entry[i].value) * 1099511628211ul;
  }
  return sum;
}

static void apply(struct store *store) {
  for (unsigned long i = 0; i < store->log.count; i++)
    store->slot[store->log.entry[i].slot] = store->log.entry[i].value;
  crashproof_persist(store->slot, sizeof store->slot);
  store->done = 1;
  crashproof_persist(&store->done, sizeof store->done);
}

static void write_all(struct store *store) {
  for (unsigned long i = 0; i < ENTRIES; i++) {
    store->log.entry[i].slot = i;
    store->log.entry[i].value = 100 + i;
  }
  store->log.count = ENTRIES;
  store->log.checksum = checksum(&store->log, ENTRIES);
  crashproof_persist(&store->log, sizeof store->log);
  apply(store);
}

static void recover(struct store *store) {
  crashproof_checksum_begin();
  unsigned long count = store->log.count;
  int whole = count == ENTRIES && store->log.checksum == checksum(&store->log, count);
  crashproof_checksum_end(whole);
  if (whole)
    apply(store);
}

int main(void) {
  struct store *store = crashproof_root(sizeof *store);
  if (!crashproof_crashes()) {
    write_all(store);
    return 0;
  }
  recover(store);
  for (unsigned long i = 1; i < ENTRIES; i++)
    crashproof_assert((store->slot[i] == 0) == (store->slot[0] == 0));
  return 0;
}
