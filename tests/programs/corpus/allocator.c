// A persistent allocator through libpmem: runs of blocks of one size with a bitmap in their header, as the small-object heaps
// of PMDK and Makalu have it, and a redo log that makes "take a block and put its address there" one step. Users of it: a
// directory of named objects.
//@ args: {dir}/pool
//@ cflags: -O1
//@ variant correct:
//@ variant bitmap-not-flushed: -DBUG_BITMAP_NOT_FLUSHED
//@ bug: never-flushed at apply
//@ like: PSan.34
//@ tier: slow
//@ variant apply-not-fenced: -DBUG_APPLY_NOT_FENCED
//@ bug: flushed-not-fenced at apply
//@ like: PSan.35
//@ variant log-not-flushed: -DBUG_LOG_NOT_FLUSHED
//@ bug: never-flushed at log
//@ like: PSan.33
//@ tier: slow
//@ variant log-flushed-late: -DBUG_LOG_FLUSHED_LATE
//@ bug: flushed-too-late|wrong-order at log
//@ tier: slow
//@ variant log-first-line: -DBUG_LOG_FIRST_LINE
//@ bug: flush-covers-too-little at log
//@ tier: slow
//@ variant valid-not-flushed: -DBUG_VALID_NOT_FLUSHED
//@ bug: never-flushed at valid
//@ tier: slow
//@ variant cleared-not-flushed: -DBUG_CLEARED_NOT_FLUSHED
//@ bug: never-flushed at cleared
//@ tier: slow
//@ variant cleared-before-applied: -DBUG_CLEARED_BEFORE_APPLIED
//@ bug: torn-update|stored-after-commit|wrong-order at apply
//@ tier: slow
//@ variant object-not-flushed: -DBUG_OBJECT_NOT_FLUSHED
//@ bug: never-flushed at object
//@ tier: slow
//@ variant object-pointer-flushed: -DBUG_OBJECT_POINTER_FLUSHED
//@ bug: wrong-address-flushed|never-flushed at object
//@ tier: slow
//@ variant no-log: -DBUG_NO_LOG
//@ bug: stored-after-commit|torn-update at unlogged
//@ variant run-not-flushed: -DBUG_RUN_NOT_FLUSHED
//@ bug: never-flushed at run
//@ like: Jaaru 12.3
//@ tier: slow
//@ variant reused-after-free: -DBUG_REUSED_AFTER_FREE
//@ bug: stored-after-commit|recovery-wrong|torn-update at scrubbed
//@ like: Jaaru 12.5
//@ tier: slow
//@ variant recovery-forgets-fence: -DBUG_RECOVERY_FORGETS_FENCE
//@ bug: flushed-not-fenced at apply
//@ flags check: --crashes 2
//@ tier: slow
//@ variant header-not-flushed: -DBUG_HEADER_NOT_FLUSHED
//@ bug: never-flushed at header
//@ like: Jaaru 12.2, PSan.32
//@ tier: slow
//@ variant all: -DBUG_ALL
//@ tier: slow
#include "pool.h"

#ifdef BUG_ALL
#define BUG_BITMAP_NOT_FLUSHED
#define BUG_LOG_NOT_FLUSHED
#define BUG_CLEARED_NOT_FLUSHED
#define BUG_OBJECT_NOT_FLUSHED
#define BUG_RUN_NOT_FLUSHED
#endif

void *pmem_map_file(const char *path, size_t len, int flags, unsigned mode, size_t *mapped, int *is_pmem);
void pmem_persist(const void *addr, size_t len);
void pmem_flush(const void *addr, size_t len);
void pmem_drain(void);
#define PMEM_FILE_CREATE 1

#define CLASSES 3 /* blocks of 64, 128 and 256 bytes */
#define RUN_BYTES 2048
#define RUNS 8
#define NAMES 6
#define LOGGED 6

/* A run: blocks of one size behind a header of one line. */
struct run {
  uint64_t block_bytes; /* 0: not in use */
  uint64_t bitmap;
  char pad[LINE - 16];
  char blocks[RUN_BYTES - LINE];
} __attribute__((aligned(LINE)));

/* What is to be stored where: applied as a whole, again if need be. */
struct log {
  struct {
    uint64_t offset, value;
  } entries[LOGGED];
  uint64_t count;
  uint64_t valid __attribute__((aligned(LINE)));
};

struct heap {
  uint64_t magic __attribute__((aligned(LINE)));
  struct log log __attribute__((aligned(LINE)));
  uint64_t bytes __attribute__((aligned(LINE))); /* of the pool; others are not opened */
  uint64_t names[NAMES] __attribute__((aligned(LINE))); /* offsets of objects, 0: none */
  uint64_t step __attribute__((aligned(LINE)));         /* of the driver */
  struct run runs[RUNS];
};

#define MAGIC 0x616c6c6f63ull

static struct heap *heap;
static struct log draft; /* volatile: what the operation under way wants */

static uint64_t offset_of(const void *at) { return (uint64_t)((const char *)at - (const char *)heap); }
static void *at(uint64_t offset) { return (char *)heap + offset; }

static void draft_store(uint64_t *place, uint64_t value) {
  draft.entries[draft.count].offset = offset_of(place);
  draft.entries[draft.count].value = value;
  draft.count++;
}

/* Stores what the log says. */
static void log_apply(int recovering) {
  for (uint64_t i = 0; i < heap->log.count; i++) {
    uint64_t *place = at(heap->log.entries[i].offset);
    *place = heap->log.entries[i].value; // MARK: apply
#ifndef BUG_BITMAP_NOT_FLUSHED
    pmem_flush(place, sizeof *place);
#endif
  }
#ifdef BUG_RECOVERY_FORGETS_FENCE
  if (!recovering)
    pmem_drain();
#elif !defined BUG_APPLY_NOT_FENCED
  pmem_drain();
#endif
  (void)recovering;
}

static void log_clear(void) {
  heap->log.valid = 0; // MARK: cleared
#ifndef BUG_CLEARED_NOT_FLUSHED
  pmem_persist(&heap->log.valid, sizeof heap->log.valid);
#endif
}

/* Makes the draft happen as a whole. */
static void publish(void) {
#ifdef BUG_NO_LOG
  for (uint64_t i = 0; i < draft.count; i++) {
    uint64_t *place = at(draft.entries[i].offset);
    *place = draft.entries[i].value; // MARK: unlogged
    pmem_persist(place, sizeof *place);
  }
#else
  memcpy(heap->log.entries, draft.entries, sizeof draft.entries); // MARK: log
  heap->log.count = draft.count;                                  // MARK: log
#ifdef BUG_LOG_FIRST_LINE
  pmem_persist(&heap->log, sizeof heap->log.entries[0]);
#elif !defined BUG_LOG_NOT_FLUSHED && !defined BUG_LOG_FLUSHED_LATE
  pmem_persist(&heap->log, offsetof(struct log, valid));
#endif
  heap->log.valid = 1; // MARK: valid
#ifndef BUG_VALID_NOT_FLUSHED
  pmem_persist(&heap->log.valid, sizeof heap->log.valid);
#endif
#ifdef BUG_LOG_FLUSHED_LATE
  pmem_persist(&heap->log, offsetof(struct log, valid));
#endif
#ifdef BUG_CLEARED_BEFORE_APPLIED
  log_clear();
  log_apply(0);
#else
  log_apply(0);
  log_clear();
#endif
#endif
  draft.count = 0;
}

static int class_of(size_t bytes) { return bytes <= 64 ? 0 : bytes <= 128 ? 1 : 2; }

static uint64_t blocks_in(const struct run *run) { return sizeof run->blocks / run->block_bytes; }

/* A run with room for a block, set up if there is none. */
static struct run *run_for(int class) {
  uint64_t bytes = 64ull << class;
  for (uint64_t r = 0; r < RUNS; r++) {
    struct run *run = &heap->runs[r];
    if (!run->block_bytes) {
      run->bitmap = 0;          // MARK: run
      run->block_bytes = bytes; // MARK: run
#ifndef BUG_RUN_NOT_FLUSHED
      pmem_persist(run, LINE);
#endif
      return run;
    }
    if (run->block_bytes == bytes && run->bitmap != (1ull << blocks_in(run)) - 1)
      return run;
  }
  fprintf(stderr, "out of memory\n");
  exit(1);
}

struct object {
  uint64_t bytes;
  uint64_t sum;
  char text[];
};

static uint64_t sum_of(const struct object *o) {
  uint64_t sum = o->bytes * 31 + 7;
  for (uint64_t i = 0; i < o->bytes; i++)
    sum = sum * 33 + (unsigned char)o->text[i];
  return sum;
}

/* Drafts the release of a block. */
static void draft_free(uint64_t offset) {
  struct run *run = &heap->runs[(offset - offset_of(heap->runs)) / sizeof(struct run)];
  uint64_t block = (offset - offset_of(run->blocks)) / run->block_bytes;
  draft_store(&run->bitmap, run->bitmap & ~(1ull << block));
}

/* Puts a new object under a name; the old one is freed in the same step. */
static void put(uint64_t name, char letter, uint64_t bytes) {
  struct run *run = run_for(class_of(sizeof(struct object) + bytes));
  uint64_t block = 0;
  while (run->bitmap >> block & 1)
    block++;
  struct object *o = (struct object *)(run->blocks + block * run->block_bytes);
  o->bytes = bytes;               // MARK: object
  memset(o->text, letter, bytes); // MARK: object
  o->sum = sum_of(o);             // MARK: object
#ifdef BUG_OBJECT_POINTER_FLUSHED
  pmem_persist(&o, sizeof o);
#elif !defined BUG_OBJECT_NOT_FLUSHED
  pmem_persist(o, sizeof *o + bytes);
#endif
  uint64_t old = heap->names[name];
  draft_store(&heap->names[name], offset_of(o));
  draft_store(&run->bitmap, run->bitmap | 1ull << block);
  if (old) {
    struct run *of = &heap->runs[(old - offset_of(heap->runs)) / sizeof(struct run)];
    if (of == run) /* one word, one entry */
      draft.entries[draft.count - 1].value &= ~(1ull << ((old - offset_of(of->blocks)) / of->block_bytes));
    else
      draft_free(old);
  }
#ifdef BUG_REUSED_AFTER_FREE
  if (old) {
    memset(at(old), 0, 16); // MARK: scrubbed
    pmem_persist(at(old), 16);
  }
#endif
  publish();
}

static void drop(uint64_t name) {
  if (!heap->names[name])
    return;
  draft_free(heap->names[name]);
  draft_store(&heap->names[name], 0);
  publish();
}

#define STEPS 18

static uint64_t bytes_of(uint64_t step) { return 8 + step * 29 % 160; }

/* Each step puts or drops one name. */
static void step_do(uint64_t step) {
  if (step % 5 == 4)
    drop(step % NAMES);
  else
    put(step % NAMES, (char)('a' + step), bytes_of(step));
}

static uint64_t last_step_of(uint64_t name, uint64_t done) {
  for (uint64_t step = done; step; step--)
    if (step % NAMES == name)
      return step;
  return 0;
}

static int is_left_by(uint64_t name, uint64_t step) {
  if (!step || step % 5 == 4)
    return heap->names[name] == 0;
  const struct object *o = at(heap->names[name]);
  return heap->names[name] && o->bytes == bytes_of(step) && o->text[0] == (char)('a' + step) && o->sum == sum_of(o);
}

/* Every name holds what it should, and exactly the blocks of objects are taken. */
static void verify(void) {
  uint64_t taken = 0, marked = 0, done = heap->step;
  for (uint64_t name = 0; name < NAMES; name++) {
    VERIFY(is_left_by(name, last_step_of(name, done)) || is_left_by(name, last_step_of(name, done + 1)));
    if (!heap->names[name])
      continue;
    taken++;
    const struct run *run = &heap->runs[(heap->names[name] - offset_of(heap->runs)) / sizeof(struct run)];
    VERIFY(run->block_bytes >= 64);
    uint64_t block = (heap->names[name] - offset_of(run->blocks)) / run->block_bytes;
    VERIFY(run->bitmap >> block & 1);
  }
  for (uint64_t r = 0; r < RUNS; r++)
    if (heap->runs[r].block_bytes)
      marked += (uint64_t)__builtin_popcountll(heap->runs[r].bitmap);
  VERIFY(taken == marked);
}

int main(int argc, char **argv) {
  size_t mapped;
  int is_pmem;
  heap = pmem_map_file(argc > 1 ? argv[1] : "/mnt/pmem/heap", sizeof *heap, PMEM_FILE_CREATE, 0666, &mapped, &is_pmem);
  if (!heap) {
    perror("pmem_map_file");
    return 2;
  }
  if (heap->magic != MAGIC) {
    heap->bytes = sizeof *heap; // MARK: header
#ifndef BUG_HEADER_NOT_FLUSHED
    pmem_persist(&heap->bytes, sizeof heap->bytes);
#endif
    heap->magic = MAGIC;
    pmem_persist(&heap->magic, sizeof heap->magic);
  }
  if (heap->bytes != sizeof *heap) {
    fprintf(stderr, "not a pool of this program\n");
    return 2;
  }
  if (heap->log.valid) {
    log_apply(1);
    log_clear();
  }
  verify();
  for (uint64_t step = heap->step + 1; step <= STEPS; step++) {
    step_do(step);
    heap->step = step;
    pmem_persist(&heap->step, sizeof heap->step);
  }
  verify();
  return 0;
}
