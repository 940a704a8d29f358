// Structures that commit with one store; recovery reads the tail, or everything: structures KIND N [all|tail]. With -DIN_FILE
// they are in a file that is mapped: structures KIND N all|tail FILE.
#include "search.h"

enum { MOST = 1 << 17, BUCKETS = 1 << 14, KEYS = 14 };

struct line { // one cache line
  uint64_t word[8];
} __attribute__((aligned(64)));

#ifdef IN_FILE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
static struct pool {
  struct line header, cells[MOST], buckets[BUCKETS];
} *pool;
#define header (pool->header)
#define cells (pool->cells)
#define buckets (pool->buckets)
static void open_pool(const char *path) {
  int file = open(path, O_RDWR | O_CREAT, 0666);
  if (file < 0 || ftruncate(file, sizeof *pool))
    exit(2);
  pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (pool == MAP_FAILED)
    exit(2);
}
#else
PERSISTENT static struct line header;
PERSISTENT static struct line cells[MOST];
PERSISTENT static struct line buckets[BUCKETS];
#endif
static int reads_all;

static void commit(uint64_t *where, uint64_t value) {
  *where = value;
  crashproof_persist(where, 8);
}

static void fill(struct line *line, uint64_t key, uint64_t next) {
  line->word[0] = key;
  line->word[1] = next;
  line->word[2] = key * 3 + 1;
  crashproof_persist(line, sizeof *line);
}

static void verify(const struct line *line) { crashproof_assert(line->word[2] == line->word[0] * 3 + 1); }

// Log: entries, then their number.
static void log_add(long i) {
  fill(&cells[i], i + 1, 0);
  commit(&header.word[0], i + 1);
}
static void log_recover(void) {
  uint64_t n = header.word[0];
  for (uint64_t i = reads_all || n == 0 ? 0 : n - 1; i < n; i++)
    verify(&cells[i]);
}

// List: a new node in front, then the head.
static void list_add(long i) {
  fill(&cells[i + 1], i + 1, header.word[0]);
  commit(&header.word[0], i + 1);
}
static void list_recover(void) {
  for (uint64_t at = header.word[0]; at; at = cells[at].word[1]) {
    verify(&cells[at]);
    if (!reads_all)
      break;
  }
}

// Hash table: a new node in front of its bucket.
static uint64_t bucket_of(uint64_t key) { return key * 0x9e3779b97f4a7c15 >> 50; }
static void table_add(long i) {
  uint64_t *bucket = &buckets[bucket_of(i + 1) % BUCKETS].word[0];
  fill(&cells[i + 1], i + 1, *bucket);
  commit(bucket, i + 1);
}
static void table_recover(void) {
  for (uint64_t b = 0; b < (reads_all ? BUCKETS : 1); b++)
    for (uint64_t at = buckets[b].word[0]; at; at = cells[at].word[1])
      verify(&cells[at]);
}

// B+-tree with sorted appends: leaves of six keys, an index of leaves, copy on write of the last leaf.
static void tree_add(long i) {
  uint64_t leaves = header.word[0], last = leaves ? leaves - 1 : 0;
  struct line *leaf = &cells[last];
  if (leaves && leaf->word[0] < 6) {
    leaf->word[1 + leaf->word[0]] = i + 1;
    crashproof_persist(leaf, sizeof *leaf);
    commit(&leaf->word[0], leaf->word[0] + 1);
    return;
  }
  leaf = &cells[leaves];
  leaf->word[1] = i + 1;
  leaf->word[0] = 1;
  crashproof_persist(leaf, sizeof *leaf);
  buckets[leaves / 8].word[leaves % 8] = leaves + 1;
  crashproof_persist(&buckets[leaves / 8], 64);
  commit(&header.word[0], leaves + 1);
}
static void tree_recover(void) {
  uint64_t leaves = header.word[0], before = 0;
  for (uint64_t l = reads_all || leaves == 0 ? 0 : leaves - 1; l < leaves; l++) {
    crashproof_assert(buckets[l / 8].word[l % 8] == l + 1);
    for (uint64_t k = 0; k < cells[l].word[0]; k++) {
      crashproof_assert(cells[l].word[1 + k] > before);
      before = cells[l].word[1 + k];
    }
  }
}

// Undo log: the old values of two cells, a flag, the new values, no flag.
static void undo_add(long i) {
  uint64_t a = i % 1024, b = (i * 7 + 1) % 1024;
  if (a == b)
    b = (b + 1) % 1024;
  buckets[0] = (struct line){{a, cells[a].word[0], b, cells[b].word[0]}};
  crashproof_persist(&buckets[0], 64);
  commit(&header.word[0], 1);
  cells[a].word[0] += 5;
  cells[b].word[0] -= 5;
  crashproof_flush(&cells[a], 64);
  crashproof_flush(&cells[b], 64);
  crashproof_drain();
  commit(&header.word[0], 0);
}
static void undo_recover(void) {
  if (header.word[0]) {
    uint64_t *undo = buckets[0].word;
    cells[undo[0]].word[0] = undo[1];
    cells[undo[2]].word[0] = undo[3];
  }
  if (reads_all) {
    uint64_t sum = 0;
    for (int i = 0; i < 1024; i++)
      sum += cells[i].word[0];
    crashproof_assert(sum == 0);
  }
}

// One behavior: what recovery reads never changes.
static void still_add(long i) { commit(&cells[i].word[0], i + 1); }
static void still_recover(void) {
  uint64_t sum = 0;
  for (int i = 0; i < 100000 / 8; i++)
    for (int j = 0; j < 8; j++)
      sum += cells[MOST - 1 - i].word[j];
  crashproof_assert(sum == 0);
}

static const struct kind {
  const char *name;
  void (*add)(long), (*recover)(void);
} kinds[] = {{"log", log_add, log_recover},    {"list", list_add, list_recover}, {"table", table_add, table_recover},
             {"tree", tree_add, tree_recover}, {"undo", undo_add, undo_recover}, {"still", still_add, still_recover}};
static const struct kind *kind;

static void recover(long n) {
  (void)n;
  kind->recover();
}

int main(int argc, char **argv) {
  long n = atol(argv[2]);
  reads_all = argc > 3 && !strcmp(argv[3], "all");
  for (kind = kinds; strcmp(kind->name, argv[1]); kind++)
    ;
#ifdef IN_FILE
  open_pool(argv[4]);
#endif
  if (crashproof_crashes() > 0) {
    recover(n);
    return 0;
  }
  begin_work(n);
  for (long i = 0; i < n; i++) {
    kind->add(i);
    operation_done(i);
  }
  end_work();
  return 0;
}
