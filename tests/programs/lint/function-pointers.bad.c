// The functions behind the pointers do not do what the code around them relies on.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ prove: skip (a fragment: it has no main)

#include "raw.h"

struct ops {
  void (*persist)(const void *addr, size_t len);
  void (*prepare)(const void *addr, size_t len);
};

struct pool {
  struct ops ops;
};

struct object {
  long header;
  char pad[120];
  long value;
};

static void write_back(const void *addr, size_t len) {
  for (const char *line = addr; line < (const char *)addr + len; line += 64)
    _mm_clwb((void *)line);
  _mm_sfence();
}

static void prefetch(const void *addr, size_t len) {
  (void)len;
  __builtin_prefetch(addr);
}

void open_pool(struct pool *pool) {
  pool->ops.persist = write_back;
  pool->ops.prepare = prefetch;
}

// The wrong member is called: it writes nothing back.
void update(struct pool *pool, struct object *object, long value) {
  object->header = value;
  pool->ops.persist(&object->header, sizeof(object->header));
  object->value = value; // MARK: unflushed-write
  pool->ops.prepare(&object->value, sizeof(object->value));
}

// Neither the callback nor whoever calls it.
static int construct(struct object *object, size_t size) {
  object->header = (long)size; // MARK: unflushed-write-2
  object->value = 0;
  _mm_clwb(&object->value);
  _mm_sfence();
  return 0;
}

static int build(struct object *object, size_t size, int (*constructor)(struct object *, size_t)) {
  return constructor(object, size);
}

int make(struct object *object) {
  return build(object, sizeof(*object), construct);
}
