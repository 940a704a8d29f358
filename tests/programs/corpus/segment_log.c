// A log-structured key-value store: records of variable length behind each other, each with a checksum; the tail says how far the
// log counts. Compaction copies what is alive into the other half and switches with one store.
//@ args: {dir}/pool
//@ cflags: -O1
//@ variant correct:
//@ variant record-not-flushed: -DBUG_RECORD_NOT_FLUSHED
//@ bug: never-flushed at text
//@ like: DeepMC.2
//@ tier: slow
//@ variant flushes-pointer: -DBUG_FLUSHES_POINTER
//@ bug: wrong-address-flushed|never-flushed at text
//@ tier: slow
//@ variant header-only: -DBUG_HEADER_ONLY
//@ bug: flush-covers-too-little at text
//@ variant tail-not-flushed: -DBUG_TAIL_NOT_FLUSHED
//@ bug: never-flushed at tail
//@ tier: slow
//@ variant switch-not-flushed: -DBUG_SWITCH_NOT_FLUSHED
//@ bug: never-flushed at half
//@ tier: slow
//@ variant copied-late: -DBUG_COPIED_LATE
//@ bug: flushed-too-late|wrong-order at text
//@ tier: slow
//@ variant cleared-not-flushed: -DBUG_CLEARED_NOT_FLUSHED
//@ bug: never-flushed at cleared
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#include "pool.h"

#ifdef BUG_ALL
#define BUG_RECORD_NOT_FLUSHED
#define BUG_FLUSHES_POINTER
#define BUG_TAIL_NOT_FLUSHED
#define BUG_SWITCH_NOT_FLUSHED
#define BUG_CLEARED_NOT_FLUSHED
#endif

#define HALF 2048
#define KEYS 6

struct record {
  uint32_t checksum;
  uint16_t key, length;
  char text[];
};

struct store {
  _Alignas(LINE) uint64_t magic;
  _Alignas(LINE) uint64_t half; /* which one counts */
  _Alignas(LINE) uint64_t tail[2];
  _Alignas(LINE) uint64_t acknowledged; /* puts that callers were told of */
  _Alignas(LINE) char log[2][HALF];
};

#define MAGIC 0x10610610ull

static uint32_t sum(const struct record *record) {
  uint32_t sum = record->key * 31u + record->length * 17u + 1;
  for (int i = 0; i < record->length; i++)
    sum = sum * 33 + (unsigned char)record->text[i];
  return sum;
}

static size_t size_of(size_t length) { return (sizeof(struct record) + length + 7) & ~(size_t)7; }

/* Returns the record behind the tail, or 0 if there is no room. */
static size_t append(struct store *store, uint64_t half, uint16_t key, const char *text, size_t length) {
  uint64_t tail = store->tail[half];
  if (tail + size_of(length) > HALF)
    return 0;
  struct record *record = (struct record *)&store->log[half][tail];
  record->key = key; // MARK: text
  record->length = (uint16_t)length; // MARK: text
  memcpy(record->text, text, length); // MARK: text
  record->checksum = sum(record);     // MARK: text
#ifdef BUG_HEADER_ONLY
  persist(record, sizeof *record);
#elif defined BUG_FLUSHES_POINTER
  persist(&record, sizeof record);
#elif !defined BUG_RECORD_NOT_FLUSHED && !defined BUG_COPIED_LATE
  persist(record, size_of(length));
#endif
  store->tail[half] = tail + size_of(length); // MARK: tail
#ifndef BUG_TAIL_NOT_FLUSHED
  persist(&store->tail[half], sizeof store->tail[half]);
#endif
#ifdef BUG_COPIED_LATE
  persist(record, size_of(length));
#endif
  return size_of(length);
}

static struct record *newest(struct store *store, uint16_t key) {
  struct record *found = NULL;
  for (uint64_t at = 0; at < store->tail[store->half];) {
    struct record *record = (struct record *)&store->log[store->half][at];
    VERIFY(record->checksum == sum(record));
    if (record->key == key)
      found = record;
    at += size_of(record->length);
  }
  return found;
}

static void compact(struct store *store) {
  uint64_t other = !store->half;
  store->tail[other] = 0; // MARK: cleared
#ifndef BUG_CLEARED_NOT_FLUSHED
  persist(&store->tail[other], sizeof store->tail[other]);
#endif
  for (uint16_t key = 0; key < KEYS; key++) {
    struct record *record = newest(store, key);
    if (record)
      VERIFY(append(store, other, key, record->text, record->length));
  }
  store->half = other; // MARK: half
#ifndef BUG_SWITCH_NOT_FLUSHED
  persist(&store->half, sizeof store->half);
#endif
}

static void text_of(uint64_t number, char *text, size_t *length) {
  *length = 5 + number * 13 % 90;
  memset(text, 'a' + (int)(number % 26), *length);
}

static void put(struct store *store, uint64_t number) {
  char text[128];
  size_t length;
  text_of(number, text, &length);
  if (!append(store, store->half, (uint16_t)(number % KEYS), text, length)) {
    compact(store);
    VERIFY(append(store, store->half, (uint16_t)(number % KEYS), text, length));
  }
  store->acknowledged = number;
  persist(&store->acknowledged, sizeof store->acknowledged);
}

static void verify(struct store *store) {
  for (uint64_t key = 0; key < KEYS; key++) {
    uint64_t number = store->acknowledged;
    while (number && number % KEYS != key)
      number--;
    if (!number)
      continue;
    struct record *record = newest(store, (uint16_t)key);
    VERIFY(record);
    char text[128], next[128];
    size_t length, next_length;
    text_of(number, text, &length);
    text_of(number + KEYS, next, &next_length);
    /* The put after the last acknowledged one may have happened, too. */
    int same = record->length == length && !memcmp(record->text, text, length);
    int newer = record->length == next_length && !memcmp(record->text, next, next_length);
    VERIFY(same || newer);
  }
}

#define PUTS 40

int main(int argc, char **argv) {
  struct store *store = pool_map(argc > 1 ? argv[1] : "/mnt/pmem/store", sizeof *store);
  if (store->magic != MAGIC) {
    store->half = 0;
    store->tail[0] = 0;
    store->acknowledged = 0;
    persist(store, offsetof(struct store, log));
    store->magic = MAGIC;
    persist(&store->magic, sizeof store->magic);
  }
  verify(store);
  for (uint64_t number = store->acknowledged + 1; number <= PUTS; number++)
    put(store, number);
  verify(store);
  return 0;
}
