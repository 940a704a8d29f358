// A redo log of byte ranges, applied with pmem_memcpy_nodrain.
//@ args: {dir}/redo
//@ lint: skip (written for prove)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant commit: -DBUG=1
//@ check: skip (prove replays its counterexample with check)
//@ prove: refuted
//@ variant clear: -DBUG=2
//@ check: skip (prove replays its counterexample with check)
//@ prove: refuted
#include <assert.h>
#include <fcntl.h>
#include <libpmem.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAXREC 8
struct rec {
  uint32_t offset;
  uint32_t len;
  uint8_t data[24];
};
struct pool {
  struct {
    uint64_t committed;
    uint64_t nrec;
    uint8_t pad[48];
    struct rec rec[MAXREC];
  } log;
  struct {
    uint64_t id;
    char title[48];
    uint64_t words;
  } doc[4] __attribute__((aligned(64)));
};

static struct pool *pool;

static void log_write(void *dst, const void *src, size_t len) {
  struct rec *r = &pool->log.rec[pool->log.nrec];
  assert(pool->log.nrec < MAXREC && len <= sizeof r->data);
  r->offset = (uint32_t)((char *)dst - (char *)pool);
  r->len = (uint32_t)len;
  memcpy(r->data, src, len);
  pmem_flush(r, sizeof *r);
  pool->log.nrec++;
}

static void log_commit(void) {
  pmem_flush(&pool->log.nrec, sizeof pool->log.nrec);
#if BUG != 1
  pmem_drain();
#endif
  pool->log.committed = 1;
  pmem_persist(&pool->log.committed, sizeof pool->log.committed);
}

static void log_apply(void) {
  for (uint64_t i = 0; i < pool->log.nrec; i++) {
    struct rec *r = &pool->log.rec[i];
    pmem_memcpy_nodrain((char *)pool + r->offset, r->data, r->len);
  }
#if BUG != 2
  pmem_drain();
#endif
  pool->log.committed = 0;
  pmem_persist(&pool->log.committed, sizeof pool->log.committed);
  pool->log.nrec = 0;
  pmem_persist(&pool->log.nrec, sizeof pool->log.nrec);
}

static void recover_pool(void) {
  if (pool->log.committed)
    log_apply();
  else if (pool->log.nrec) {
    pool->log.nrec = 0;
    pmem_persist(&pool->log.nrec, sizeof pool->log.nrec);
  }
}

static void set_doc(int i, uint64_t id, const char *title, uint64_t words) {
  char t[24] = {0};
  strncpy(t, title, sizeof t - 1);
  log_write(&pool->doc[i].title, t, sizeof t);
  log_write(&pool->doc[i].words, &words, sizeof words);
  log_write(&pool->doc[i].id, &id, sizeof id);
  log_commit();
  log_apply();
}

static void check_docs(void) {
  for (int i = 0; i < 4; i++) {
    if (pool->doc[i].id == 0) {
      if (pool->doc[i].words != 0 || pool->doc[i].title[0] != 0) {
        fprintf(stderr, "doc %d is half there\n", i);
        exit(5);
      }
      continue;
    }
    if (strlen(pool->doc[i].title) != pool->doc[i].words) {
      fprintf(stderr, "doc %d: '%s' %lu\n", i, pool->doc[i].title, (unsigned long)pool->doc[i].words);
      exit(6);
    }
  }
}

int main(int argc, char **argv) {
  size_t len;
  int is_pmem;
  if (argc != 2) {
    fprintf(stderr, "usage: %s file\n", argv[0]);
    return 1;
  }
  pool = pmem_map_file(argv[1], sizeof *pool, PMEM_FILE_CREATE, 0666, &len, &is_pmem);
  if (!pool) {
    perror("pmem_map_file");
    return 1;
  }
  recover_pool();
  check_docs();
  set_doc(0, 1, "hello", 5);
  set_doc(1, 2, "crash", 5);
  set_doc(0, 3, "goodbye", 7);
  check_docs();
  pmem_unmap(pool, len);
  return 0;
}
