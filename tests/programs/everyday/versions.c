// Two copies with versions, written by one thread and read by another; flushes in inline assembly.
//@ args: {dir}/seq
//@ lint: skip (written for prove)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant order: -DBUG=1
//@ check: skip (prove replays its counterexample with check)
//@ prove: refuted
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct shared {
  _Atomic uint64_t version[2];
  char pad[48];
  struct {
    uint64_t x, y;
    char pad[48];
  } data[2];
};
static struct shared *s;

static void pwb(volatile void *p) {
  asm volatile("clwb %0" : "+m"(*(volatile char *)p));
}
static void pfence(void) { asm volatile("sfence" ::: "memory"); }

static void update(uint64_t v) {
  int side = v & 1;
  s->data[side].x = v;
  s->data[side].y = v * v;
  pwb(&s->data[side]);
#if BUG != 1
  pfence();
#endif
  atomic_store_explicit(&s->version[side], v, memory_order_release);
  pwb(&s->version[side]);
  pfence();
}

static void *writer(void *arg) {
  for (uint64_t v = 1; v <= (uintptr_t)arg; v++)
    update(v);
  return NULL;
}

static void *reader(void *arg) {
  uint64_t *out = arg;
  *out = atomic_load(&s->version[1]);
  if (*out)
    assert(s->data[1].x >= 1);
  return NULL;
}

int main(int argc, char **argv) {
  int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0600);
  if (fd == -1 || ftruncate(fd, sizeof *s))
    return perror("open"), 1;
  s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (s == MAP_FAILED)
    return perror("mmap"), 1;
  int newest = s->version[1] > s->version[0];
  uint64_t v = s->version[newest];
  if (v) {
    if (s->data[newest].x != v || s->data[newest].y != v * v) {
      fprintf(stderr, "version %lu is torn\n", (unsigned long)v);
      return 2;
    }
    return 0;
  }
  pthread_t w, r;
  uint64_t seen = 0;
  pthread_create(&w, NULL, writer, (void *)2);
  pthread_create(&r, NULL, reader, &seen);
  pthread_join(w, NULL);
  pthread_join(r, NULL);
  return 0;
}
