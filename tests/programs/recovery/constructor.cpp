// A pool that is opened, and formatted, in a constructor: those run in every execution.
//@ args: {dir}/pool
//@ prove: unknown (a value that was never made)
//@ variant good: -DGOOD
//@ check: clean
//@ figures: 4 crash points, 3 recoveries
//@ lint: clean, no warnings
//@ variant plain:
//@ check: fails at LOST
//@ figures: 3 crash points, 4 recoveries
//@ lint: unflushed-write at LOST
//@ variant thread-good: -DTHREAD -DGOOD
//@ check: clean
//@ figures: 8 crash points, 9 recoveries
//@ lint: clean, no warnings
//@ variant exit: -DEXIT
//@ check: refused (9)
//@ lint: clean, no warnings
#include <crashproof.h>
#include <libpmem.h>

#include <cstdlib>
#include <thread>

static const char *path;

__attribute__((constructor(101))) static void keep(int, char **arguments) { path = arguments[1]; }

struct pool {
  alignas(64) long size;
  alignas(64) long magic;
  alignas(64) long entry;
  alignas(64) long count;
};

static struct opened {
  pool *there;

  opened() : there(static_cast<pool *>(pmem_map_file(path, 4096, PMEM_FILE_CREATE, 0600, nullptr, nullptr))) {
#ifdef EXIT
    exit(9);
#endif
#ifdef THREAD
    std::thread([this] { format(); }).join();
#else
    format();
#endif
  }

  void format() {
    if (there->magic)
      return;
    there->size = 7; // MARK: LOST
#ifdef GOOD
    pmem_persist(&there->size, sizeof there->size);
#endif
    there->magic = 1;
    pmem_persist(&there->magic, sizeof there->magic);
  }
} file;

int main() {
  crashproof_assert(file.there->size == 7);
  if (crashproof_crashes()) {
    crashproof_assert(file.there->count == 0 || file.there->entry == 3);
    return 0;
  }
  file.there->entry = 3;
  pmem_persist(&file.there->entry, sizeof file.there->entry);
  file.there->count = 1;
  pmem_persist(&file.there->count, sizeof file.there->count);
}
