// A queue of jobs through libpmem, for files on PM and elsewhere.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: flush-unmodified at flush-unmodified-4
//@ variant job: -DBUG=1
//@ lint: unflushed-write at id
//@ lint: unflushed-write at unflushed-write-5
//@ variant drain: -DBUG=2
//@ lint: publish-before-persist at copy
//@ lint: unflushed-write at id
//@ lint: unflushed-write at unflushed-write-5
//@ variant tail: -DBUG=3
//@ lint: unflushed-write at tail
//@ lint: flush-unmodified at flush-unmodified-4
//@ variant size: -DBUG=4
//@ lint: unflushed-write at name
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *pmem_map_file(const char *path, size_t len, int flags, unsigned mode, size_t *mapped, int *is_pmem);
void pmem_persist(const void *addr, size_t len);
int pmem_msync(const void *addr, size_t len);
void pmem_flush(const void *addr, size_t len);
void pmem_drain(void);
void *pmem_memcpy_nodrain(void *to, const void *from, size_t len);
int pmem_unmap(void *addr, size_t len);
#define PMEM_FILE_CREATE 1

struct job {
  uint64_t id;
  uint64_t priority;
  char name[112];
};

struct queue {
  uint64_t tail;
  char pad[56];
  struct job jobs[16];
};

static int is_pmem;

static void sync_range(const void *p, size_t n) {
  if (is_pmem)
    pmem_persist(p, n);
  else
    pmem_msync(p, n);
}

static struct queue *queue_open(const char *path) {
  size_t mapped;
  struct queue *q = pmem_map_file(path, sizeof *q, PMEM_FILE_CREATE, 0666, &mapped, &is_pmem);
  if (q == NULL) {
    perror("pmem_map_file");
    exit(1);
  }
  return q;
}

static void submit(struct queue *q, uint64_t id, const char *name) {
  struct job *j = &q->jobs[q->tail];
  char text[112] = {0};
  snprintf(text, sizeof text, "%s-%d", name, (int)id);
  pmem_memcpy_nodrain(j->name, text, sizeof text); // MARK: copy
#if BUG != 2
  pmem_drain();
#endif
  j->id = id; // MARK: id
  j->priority = 1; // MARK: unflushed-write-5
#if BUG == 4
  strcpy(j->name + 64, name); // MARK: name
  sync_range(j, 16);
#elif BUG != 1 && BUG != 2
  sync_range(j, sizeof *j); // MARK: flush-unmodified-4
#endif
  q->tail++; // MARK: tail
#if BUG != 3
  sync_range(&q->tail, sizeof q->tail);
#endif
}

int main(int argc, char **argv) {
  struct queue *q = queue_open(argv[1]);
  for (uint64_t i = 0; i < q->tail; i++) {
    char text[112];
    snprintf(text, sizeof text, "job-%d", (int)q->jobs[i].id);
    assert(q->jobs[i].id == i + 1);
    assert(strcmp(q->jobs[i].name, text) == 0);
  }
  if (q->tail == 0) {
    submit(q, 1, "job");
    submit(q, 2, "job");
  }
  pmem_unmap(q, sizeof *q);
  return 0;
}
