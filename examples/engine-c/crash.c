/* The tests: each opens its pool, looks whether what is there is whole, and goes on. After a crash it is run again. */
#include "engine.h"

#include <libpmem.h>
#include <stdio.h>
#include <string.h>

static uint64_t key_of(uint64_t n) { return (n * 7) % 11; }

struct seen {
  uint64_t puts, last;
  bool wrong;
};

/* Keys ascend, and each has the value of its put. */
static void look(uint64_t key, uint64_t value, void *data) {
  struct seen *seen = data;
  if (seen->puts && key <= seen->last)
    seen->wrong = true;
  if (value < 1001 || key != key_of(value - 1000))
    seen->wrong = true;
  seen->last = key;
  seen->puts++;
}

/* The first puts are there and nothing else; the rest follows. */
static int first_puts(struct pool *pool, uint64_t most) {
  struct seen seen = {0};
  size_t count = engine_scan(pool, look, &seen);
  uint64_t value;
  if (seen.wrong || count > most)
    return 1;
  for (uint64_t n = 1; n <= count; n++)
    if (!engine_get(pool, key_of(n), &value) || value != 1000 + n)
      return 1;
  for (uint64_t n = count + 1; n <= most; n++)
    engine_put(pool, key_of(n), 1000 + n);
  return 0;
}

static int replaced(struct pool *pool) {
  uint64_t value;
  if (engine_get(pool, 5, &value) && value != 1 && value != 2)
    return 1;
  engine_put(pool, 5, 1);
  engine_put(pool, 5, 2);
  return !engine_get(pool, 5, &value) || value != 2;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s TEST FILE\n", argv[0]);
    return 2;
  }
  size_t bytes;
  struct pool *pool = pmem_map_file(argv[2], sizeof *pool, PMEM_FILE_CREATE, 0600, &bytes, NULL);
  if (!pool) {
    perror(argv[2]);
    return 2;
  }
  engine_open(pool);
  if (!strcmp(argv[1], "one_leaf"))
    return first_puts(pool, 3);
  if (!strcmp(argv[1], "a_split"))
    return first_puts(pool, 7);
  return replaced(pool);
}
