// A ring buffer behind a global pointer, with macros around clflushopt.
//@ args: {dir}/pool
//@ check: skip (written for lint; not measured with check yet)
//@ prove: skip (written for lint; not measured with prove yet)
//@ variant right: -DBUG=0
//@ lint: clean
//@ variant message: -DBUG=1
//@ lint: unflushed-write at length
//@ lint: unflushed-write at text
//@ variant fence: -DBUG=2
//@ lint: publish-before-persist at length
//@ lint: publish-before-persist at text
//@ variant tail: -DBUG=3
//@ lint: unflushed-write at tail
//@ variant half: -DBUG=4
//@ lint: unflushed-write at text
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CACHELINE 64
#define FLUSH(p) _mm_clflushopt((void *)(p))
#define DRAIN() _mm_sfence()
#define PERSIST(p)                                                                                                               \
  do {                                                                                                                           \
    FLUSH(p);                                                                                                                    \
    DRAIN();                                                                                                                     \
  } while (0)

struct message {
  uint32_t length;
  uint32_t unused;
  char head[56];
  char text[64];
};

struct ring {
  _Alignas(64) uint64_t head;
  _Alignas(64) uint64_t tail;
  _Alignas(64) struct message messages[8];
};

static struct ring *ring;

static bool attach(const char *path) {
  int fd = open(path, O_CREAT | O_RDWR, 0600);
  if (fd == -1)
    return false;
  if (ftruncate(fd, 4096) == -1)
    return false;
  void *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED)
    return false;
  ring = p;
  return true;
}

static bool push(const char *text) {
  if (ring->tail - ring->head == 8)
    return false;
  struct message *m = &ring->messages[ring->tail % 8];
  m->length = strlen(text); // MARK: length
  strcpy(m->text, text); // MARK: text
#if BUG != 1
  FLUSH(m);
#if BUG != 4
  FLUSH(m->text); // MARK: flush
#endif
#if BUG != 2
  DRAIN();
#endif
#endif
  ring->tail++; // MARK: tail
#if BUG != 3
  PERSIST(&ring->tail);
#endif
  return true;
}

static bool pop(char *text) {
  if (ring->head == ring->tail)
    return false;
  strcpy(text, ring->messages[ring->head % 8].text);
  ring->head++;
  PERSIST(&ring->head);
  return true;
}

int main(int argc, char **argv) {
  if (argc < 2 || !attach(argv[1]))
    return 1;
  char text[64];
  for (uint64_t i = ring->head; i < ring->tail; i++)
    assert(ring->messages[i % 8].length == strlen(ring->messages[i % 8].text));
  if (ring->tail == 0) {
    push("first");
    push("second");
    pop(text);
    push("third");
  }
  return 0;
}
