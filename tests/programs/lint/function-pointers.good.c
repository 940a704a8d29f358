// Persistence behind pointers to functions, as libpmemobj keeps them in its pool: what is ever stored in the member
// is what is called. A callback is called by whom it is given to, who may flush for it.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)

#include "raw.h"

struct ops {
  void (*persist)(const void *addr, size_t len);
  void (*drain)(void);
  void (*forget)(void *what);
};

struct pool {
  struct ops ops;
  struct ops *other;
};

struct object {
  long header;
  char pad[120];
  long value;
};

static void persist_range(const void *addr, size_t len)
{
  for (const char *line = addr; line < (const char *)addr + len; line += 64)
    _mm_clwb((void *)line);
  _mm_sfence();
}

static void persist_slowly(const void *addr, size_t len)
{
  for (const char *line = addr; line < (const char *)addr + len; line += 64)
    _mm_clflush(line);
  _mm_sfence();
}

static void wait(void)
{
  _mm_sfence();
}

static void nothing(void *what)
{
  (void)what;
}

void open_pool(struct pool *pool, int fast)
{
  pool->ops.persist = fast ? persist_range : persist_slowly;
  pool->ops.drain = wait;
  pool->ops.forget = nothing;
}

// Both functions that may be called write it back.
void update(struct pool *pool, struct object *object, long value)
{
  object->value = value;
  pool->ops.persist(&object->value, sizeof(object->value));
  pool->ops.forget(object);
}

// A member at the same offset of another structure says nothing of this one.
struct visitor {
  int (*visit)(struct object *object, void *context);
};

static int set_header(struct object *object, void *context)
{
  object->header = (long)context;
  _mm_clwb(&object->header);
  _mm_sfence();
  return 0;
}

// Left to whoever calls back.
static int construct(struct object *object, size_t size)
{
  object->header = (long)size;
  object->value = 0;
  _mm_clwb(&object->value);
  _mm_sfence();
  return 0;
}

static int build(struct object *object, size_t size, int (*constructor)(struct object *, size_t))
{
  int failed = constructor(object, size);
  _mm_clwb(&object->header);
  _mm_sfence();
  return failed;
}

int make(struct object *object)
{
  return build(object, sizeof(*object), construct);
}

int visit(struct visitor *visitor, struct object *object)
{
  struct visitor own = {set_header};
  (void)own;
  return visitor->visit(object, object);
}
