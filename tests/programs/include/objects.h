/* What the structures on libpmemobj have in common. The pool is there before the program runs, as pmempool makes it:
   `program POOL create`. */
#pragma once
#include <libpmemobj.h>

#include "pool.h"

static PMEMobjpool *pop;

/* Opens the pool, or creates it and ends. */
static inline void objects_open(int argc, char **argv, const char *layout) {
  const char *path = argc > 1 ? argv[1] : "/mnt/pmem/pool";
  if (argc > 2)
    pop = pmemobj_create(path, layout, PMEMOBJ_MIN_POOL, 0666);
  else
    pop = pmemobj_open(path, layout);
  if (!pop) {
    perror(path);
    exit(2);
  }
  if (argc > 2) {
    pmemobj_close(pop);
    exit(0);
  }
}

/* How the driver keeps what is done. */
#define DRIVER_PERSIST(start, bytes) pmemobj_persist(pop, start, bytes)
