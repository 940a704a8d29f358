// Records of a key and a value, with their lengths in front: the length of the key is where the value begins, and no index of it.
//@ args: {dir}/log
//@ prove: skip (written for lint)
//@ variant right: -DRIGHT
//@ check: clean
//@ lint: clean
//@ variant header: -DBUG_HEADER
//@ check: recovery-fails at value
//@ lint: unflushed-write at key
//@ lint: unflushed-write at value (known wrong: a flush of the header may reach the value, whose place depends on the key)
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct header { uint32_t sum; uint16_t key, value; };
struct log { uint64_t tail; uint64_t pad[7]; uint8_t data[2048]; };

static void persist(const void *from, size_t length) {
  for (uintptr_t at = (uintptr_t)from & ~(uintptr_t)63; at < (uintptr_t)from + length; at += 64) _mm_clwb((void *)at);
  _mm_sfence();
}
static uint32_t sum(const uint8_t *bytes, size_t length) {
  uint32_t all = 1;
  for (size_t i = 0; i < length; i++) all = all * 31 + bytes[i];
  return all;
}
static int put(struct log *log, const char *key, const char *value) {
  struct header h;
  h.key = strlen(key);
  h.value = strlen(value);
  size_t need = (sizeof h + h.key + h.value + 7) & ~(size_t)7;
  if (log->tail + need > sizeof log->data) return -1;
  uint8_t *to = log->data + log->tail;
  memcpy(to + sizeof h, key, h.key); // MARK: key
  memcpy(to + sizeof h + h.key, value, h.value); // MARK: value
  h.sum = sum(to + sizeof h, h.key + h.value);
  memcpy(to, &h, sizeof h);
#ifdef BUG_HEADER
  persist(to, sizeof h);
#else
  persist(to, need);
#endif
  log->tail += need;
  persist(&log->tail, sizeof log->tail);
  return 0;
}
static int count(struct log *log) {
  int n = 0;
  for (uint64_t at = 0; at < log->tail; n++) {
    struct header h;
    memcpy(&h, log->data + at, sizeof h);
    if (h.key == 0 || sum(log->data + at + sizeof h, h.key + h.value) != h.sum) abort();
    at += (sizeof h + h.key + h.value + 7) & ~(size_t)7;
  }
  return n;
}
int main(int argc, char **argv) {
  if (argc < 2) return 1;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(struct log))) return 1;
  struct log *log = mmap(NULL, sizeof *log, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (log == MAP_FAILED) return 1;
  static const char *const pairs[][2] = {{"long", "a value that does not fit into the line of its header, so that it needs more than one"},
                                         {"short", "b"}};
  for (int i = count(log); i < 2; i++)
    if (put(log, pairs[i][0], pairs[i][1])) return 1;
  return 0;
}
