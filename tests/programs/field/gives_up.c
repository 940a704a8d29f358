// A transaction that finds no room gives up between the flush of its log and the fence: nothing that it wrote counts.
//@ args: {dir}/log
//@ prove: skip (written for lint)
//@ variant right: -DRIGHT
//@ check: clean
//@ lint: clean
//@ variant entry: -DBUG_ENTRY
//@ check: recovery-fails at value
//@ lint: unflushed-write at record
//@ lint: unflushed-write at value
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES 4
struct entry {
  uint64_t record;
  uint64_t value;
  uint64_t pad[6];
};
struct log {
  uint64_t count;
  uint64_t pad[7];
  struct entry entry[ENTRIES];
};
static void flush(const void *p, size_t n) {
  for (uintptr_t line = (uintptr_t)p & ~63ul; line < (uintptr_t)p + n; line += 64) _mm_clwb((void *)line);
}
static int add(struct log *log, uint64_t *n, uint64_t record, uint64_t value) {
  if (*n == ENTRIES) return -ENOSPC;
  struct entry *entry = &log->entry[*n];
  entry->record = record; // MARK: record
  entry->value = value; // MARK: value
#ifndef BUG_ENTRY
  flush(entry, sizeof *entry);
#endif
  ++*n;
  return 0;
}
static int pair(struct log *log, uint64_t record) {
  uint64_t n = log->count;
  int rc = add(log, &n, record, record + 1);
  if (rc) return rc;
  rc = add(log, &n, record + 1, record + 2);
  if (rc) return rc;
  _mm_sfence();
  log->count = n;
  flush(&log->count, sizeof log->count);
  _mm_sfence();
  return 0;
}
int main(int argc, char **argv) {
  int fd = open(argc > 1 ? argv[1] : "log", O_CREAT | O_RDWR, 0640);
  if (fd < 0 || ftruncate(fd, sizeof(struct log))) return 1;
  struct log *log = mmap(NULL, sizeof(struct log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (log == MAP_FAILED) return 1;
  for (uint64_t i = 0; i < log->count; i++) assert(log->entry[i].value == log->entry[i].record + 1);
  int rc = pair(log, 10);
  if (rc) fprintf(stderr, "no room\n");
  return 0;
}
