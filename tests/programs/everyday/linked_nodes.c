// A list of nodes of one line each, by index; recovery walks it by recursion and checks sums.
//@ args: {dir}/lru
//@ lint: skip (written for prove)
//@ variant right: -DBUG=0
//@ check: clean
//@ prove: proved
//@ variant link: -DBUG=1
//@ check: skip (prove replays its counterexample with check)
//@ prove: refuted
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* singly linked list of nodes carved from an arena; each node one line; head last */
typedef struct node {
  uint64_t next; /* index + 1 */
  uint64_t id;
  char name[40];
  uint64_t sum;
} __attribute__((aligned(64))) node_t;

typedef struct {
  uint64_t head, nalloc;
  char pad[48];
  node_t nodes[16];
} arena_t;

static arena_t *A;

static void flush_line(const void *p) { __builtin_ia32_clwb((void *)p); }
static void sfence(void) { __builtin_ia32_sfence(); }

static uint64_t sum_of(const node_t *n) {
  uint64_t s = n->id * 31;
  for (const char *c = n->name; *c; c++)
    s = s * 31 + (unsigned char)*c;
  return s;
}

static node_t *node_new(uint64_t id, const char *name) {
  node_t *n = &A->nodes[A->nalloc];
  A->nalloc++;
  flush_line(&A->nalloc);
  sfence();
  memset(n, 0, sizeof *n);
  n->id = id;
  strncpy(n->name, name, sizeof n->name - 1);
  n->sum = sum_of(n);
  return n;
}

static void push(uint64_t id, const char *name) {
  node_t *n = node_new(id, name);
  n->next = A->head;
#if BUG != 1
  flush_line(n);
  sfence();
#endif
  A->head = (uint64_t)(n - A->nodes) + 1;
  flush_line(&A->head);
  sfence();
}

static void remove_id(uint64_t id) {
  uint64_t *link = &A->head;
  while (*link) {
    node_t *n = &A->nodes[*link - 1];
    if (n->id == id) {
      *link = n->next;
      flush_line(link);
      sfence();
      return;
    }
    link = &n->next;
  }
}

static int walk(uint64_t at, int depth) {
  if (at == 0)
    return depth;
  assert(at <= A->nalloc);
  node_t *n = &A->nodes[at - 1];
  assert(n->sum == sum_of(n));
  return walk(n->next, depth + 1);
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "lru.pm";
  int fd = open(path, O_RDWR | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, sizeof(arena_t)) < 0) {
    perror(path);
    return 1;
  }
  A = mmap(NULL, sizeof(arena_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (A == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  close(fd);
  int n = walk(A->head, 0);
  if (n > 3) {
    fprintf(stderr, "%d nodes\n", n);
    return 3;
  }
  if (A->nalloc == 0) {
    push(1, "one");
    push(2, "two");
    push(3, "three");
    remove_id(2);
  }
  walk(A->head, 0);
  return 0;
}
