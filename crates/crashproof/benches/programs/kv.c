// A key-value store under a mixed load, half of it reads. Each operation is a strand; what the next one relies on is
// joined before, and a put is durable when it returns. Recovery looks at the header only, so that the load is what takes
// time.
#include <crashproof.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 1024

struct slot {
  char key[24];
  char value[32];
  uint64_t version;
} __attribute__((aligned(64)));

struct store {
  uint64_t magic __attribute__((aligned(64)));
  struct slot slot[SLOTS];
};

static uint64_t hash(const char *text) {
  uint64_t hash = 14695981039346656037ull;
  for (; *text; text++)
    hash = (hash ^ (unsigned char)*text) * 1099511628211ull;
  return hash;
}

static struct slot *find(struct store *store, const char *key) { return &store->slot[hash(key) % SLOTS]; }

static void put(struct store *store, const char *key, const char *value) {
  struct slot *slot = find(store, key);
  crashproof_strand_begin();
  memcpy(slot->key, key, strlen(key) + 1);
  memcpy(slot->value, value, strlen(value) + 1);
  slot->version++;
  crashproof_flush(slot, sizeof *slot);
  crashproof_strand_end();
  crashproof_strand_join();
  crashproof_drain();
}

static int get(struct store *store, const char *key, char *value) {
  struct slot *slot = find(store, key);
  crashproof_strand_begin();
  int there = !strcmp(slot->key, key);
  if (there)
    memcpy(value, slot->value, sizeof slot->value);
  crashproof_strand_end();
  return there;
}

int main(int argc, char **argv) {
  struct store *store = crashproof_root(sizeof *store);
  if (crashproof_crashes()) {
    crashproof_assert(store->magic == 0 || store->magic == 7);
    return 0;
  }
  store->magic = 7;
  crashproof_persist(&store->magic, sizeof store->magic);
  long count = argc > 1 ? atol(argv[1]) : 100, hits = 0;
  char key[24], value[32];
  uint64_t random = 42;
  for (long i = 0; i < count; i++) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    snprintf(key, sizeof key, "user%llu", (unsigned long long)(random >> 33) % 4096);
    if (random >> 63) {
      snprintf(value, sizeof value, "value %ld", i);
      put(store, key, value);
    } else {
      hits += get(store, key, value);
    }
  }
  return hits > count;
}
