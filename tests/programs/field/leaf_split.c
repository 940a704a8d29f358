// Leaves of a B+-tree: recovery follows the links of a list of any length, and repairs a leaf far down.
//@ args: {dir}/pool
//@ prove: skip (written for lint)
//@ variant right: -DRIGHT
//@ check: clean
//@ lint: clean
//@ variant kv: -DBUG_KV
//@ check: recovery-fails at kv
//@ lint: unflushed-write at kv
//@ variant copy: -DBUG_COPY
//@ check: recovery-fails at copy
//@ lint: unflushed-write at copy
#include <assert.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FANOUT 6
#define LEAVES 16
struct kv { uint64_t key, value; };
struct leaf {
  uint64_t bitmap;
  uint32_t next; /* index, 0 is none */
  uint32_t reserved;
  char pad[48];
  struct kv kv[FANOUT];
  char pad2[32];
};
struct tree {
  uint64_t magic;
  uint64_t used;
  char pad[48];
  struct leaf leaf[LEAVES];
};
static struct tree *T;

static void pm_wb(const volatile void *p, size_t size) {
  uintptr_t start = (uintptr_t)p / 64 * 64, stop = (uintptr_t)p + size;
  do {
    _mm_clwb((void *)start);
    start += 64;
  } while (start < stop);
}
static void pm_sync(const volatile void *p, size_t size) {
  pm_wb(p, size);
  _mm_sfence();
}

static bool pool_attach(const char *name) {
  int fd = open(name, O_RDWR | O_CREAT, 0644);
  if (fd < 0) return false;
  if (ftruncate(fd, sizeof(struct tree))) return false;
  void *base = mmap(NULL, sizeof(struct tree), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return false;
  T = base;
  close(fd);
  return true;
}

static int count(uint64_t bm) { return __builtin_popcountll(bm); }

static struct leaf *find_leaf(uint64_t key) {
  struct leaf *l = &T->leaf[1];
  while (l->next) {
    struct leaf *n = &T->leaf[l->next];
    uint64_t low = UINT64_MAX;
    for (int i = 0; i < FANOUT; i++)
      if ((n->bitmap >> i & 1) && n->kv[i].key < low) low = n->kv[i].key;
    if (key < low) break;
    l = n;
  }
  return l;
}

static void leaf_put(struct leaf *l, uint64_t key, uint64_t value) {
  int i = __builtin_ctzll(~l->bitmap);
  l->kv[i] = (struct kv){key, value}; // MARK: kv
#ifndef BUG_KV
  pm_sync(&l->kv[i], sizeof l->kv[i]);
#endif
  l->bitmap |= 1ull << i;
  pm_sync(&l->bitmap, sizeof l->bitmap);
}

static struct leaf *leaf_split(struct leaf *l) {
  uint64_t median = 0;
  uint64_t keys[FANOUT];
  for (int i = 0; i < FANOUT; i++) keys[i] = l->kv[i].key;
  for (int i = 0; i < FANOUT; i++)
    for (int j = i + 1; j < FANOUT; j++)
      if (keys[j] < keys[i]) {
        uint64_t t = keys[i];
        keys[i] = keys[j];
        keys[j] = t;
      }
  median = keys[FANOUT / 2];
  uint64_t index = T->used + 1;
  T->used = index; 
  pm_sync(&T->used, sizeof T->used);
  struct leaf *n = &T->leaf[index];
  memcpy(n, l, sizeof *n); // MARK: copy
  uint64_t moved = 0;
  for (int i = 0; i < FANOUT; i++)
    if (l->kv[i].key >= median) moved |= 1ull << i;
  n->bitmap = moved;
#if defined BUG_COPY
  pm_sync(n, 64);
#else
  pm_sync(n, sizeof *n);
#endif
  l->next = index;
#ifndef BUG_LINK
  pm_sync(&l->next, sizeof l->next);
#endif
  l->bitmap &= ~moved;
#ifndef BUG_BM
  pm_sync(&l->bitmap, sizeof l->bitmap);
#endif
  return n;
}

static void put(uint64_t key, uint64_t value) {
  struct leaf *l = find_leaf(key);
  if (count(l->bitmap) == FANOUT) {
    struct leaf *n = leaf_split(l);
    uint64_t low = UINT64_MAX;
    for (int i = 0; i < FANOUT; i++)
      if ((n->bitmap >> i & 1) && n->kv[i].key < low) low = n->kv[i].key;
    if (key >= low) l = n;
  }
  leaf_put(l, key, value);
}

static void recover(void) {
  for (uint32_t i = 1; i; i = T->leaf[i].next) {
    struct leaf *l = &T->leaf[i];
    assert(i <= T->used);
    if (!l->next) continue;
    /* a split that was cut off: drop what the new leaf has, too */
    struct leaf *n = &T->leaf[l->next];
    uint64_t low = UINT64_MAX;
    for (int k = 0; k < FANOUT; k++)
      if ((n->bitmap >> k & 1) && n->kv[k].key < low) low = n->kv[k].key;
    uint64_t keep = l->bitmap;
    for (int k = 0; k < FANOUT; k++)
      if ((keep >> k & 1) && l->kv[k].key >= low) keep &= ~(1ull << k);
    if (keep != l->bitmap) {
      l->bitmap = keep;
      pm_sync(&l->bitmap, sizeof l->bitmap);
    }
  }
  for (uint32_t i = 1; i; i = T->leaf[i].next)
    for (int k = 0; k < FANOUT; k++)
      if (T->leaf[i].bitmap >> k & 1) assert(T->leaf[i].kv[k].value == T->leaf[i].kv[k].key + 1000);
}

int main(int argc, char **argv) {
  if (!pool_attach(argc > 1 ? argv[1] : "tree")) return perror("pool"), 1;
  if (T->magic != 77) {
    T->used = 1;
    pm_sync(&T->used, sizeof T->used);
    T->magic = 77;
    pm_sync(&T->magic, sizeof T->magic);
  } else {
    recover();
    uint64_t n = 0;
    for (uint32_t i = 1; i; i = T->leaf[i].next) n += count(T->leaf[i].bitmap);
    if (T->used > 1 && T->leaf[1].next) assert(n >= FANOUT);
    if (T->leaf[1].bitmap && T->used > 1 && !T->leaf[1].next) assert(count(T->leaf[1].bitmap) == FANOUT);
    return 0;
  }
  static const uint64_t keys[] = {50, 20, 70, 10, 90, 30, 60, 80};
  for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) put(keys[i], keys[i] + 1000);
  return 0;
}
