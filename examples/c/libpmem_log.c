/*
 * A log in a file, with libpmem. crashproof brings libpmem's functions along, so this builds and can be checked
 * on a machine without persistent memory and without PMDK:
 *
 *     crashproof check examples/c/libpmem_log.c -- /tmp/crashproof-example.log
 */
#include <libpmem.h>
#include <stdio.h>
#include <string.h>

#define BYTES (1 << 16)
#define ENTRY 48

struct log {
  unsigned long length;
  char text[];
};

static void append(struct log *log, const char *entry) {
  char *at = log->text + log->length;
  pmem_memcpy_persist(at, entry, ENTRY);
  log->length += ENTRY;
  pmem_persist(&log->length, sizeof log->length);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  size_t bytes;
  struct log *log = pmem_map_file(argv[1], BYTES, PMEM_FILE_CREATE, 0644, &bytes, NULL);
  if (!log) {
    perror(argv[1]);
    return 2;
  }
  /* Every entry that counts is whole. */
  for (unsigned long at = 0; at < log->length; at += ENTRY)
    if (strncmp(log->text + at, "entry ", 6) != 0 || log->text[at + ENTRY - 1] != '.')
      return 1;
  for (int number = 0; log->length < 3 * ENTRY; number++) {
    char entry[ENTRY];
    memset(entry, '.', sizeof entry);
    memcpy(entry, "entry ", 6);
    entry[6] = (char)('0' + number);
    append(log, entry);
  }
  pmem_unmap(log, bytes);
  return 0;
}
