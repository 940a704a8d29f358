/* A B+-tree in persistent memory whose changes go through a write-ahead log: ../engine in C, on libpmem. */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_WORDS 16
#define POOL_PAGES 32
#define LOGGED 6

/* Two cache lines. Page 0 says where the tree begins, every other page in use is a node. */
struct page {
  _Alignas(64) uint64_t words[PAGE_WORDS];
};

/* The new content of a page. */
struct entry {
  struct page page;
  uint64_t number;
};

struct pool {
  /* The log: how many entries count, and the entries. */
  _Alignas(64) uint64_t committed;
  struct entry entries[LOGGED];
  struct page pages[POOL_PAGES];
};

/* Opens a pool: finishes what the last run committed, or makes an empty tree in a new one. */
void engine_open(struct pool *pool);

/* The value of a key, if it is there. */
bool engine_get(const struct pool *pool, uint64_t key, uint64_t *value);

/* Sets the value of a key. It is persistent when this returns. */
void engine_put(struct pool *pool, uint64_t key, uint64_t value);

/* Calls `visit` for all keys and values, in order; how many there are. */
size_t engine_scan(const struct pool *pool, void (*visit)(uint64_t key, uint64_t value, void *data), void *data);

#endif
