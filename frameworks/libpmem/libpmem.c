/*
 * libpmem, as the prover executes it. A file is one persistent object, zero at first; that it exists is never lost.
 * Copies are plain stores and flushes: where libpmem would use non-temporal stores, this is as strong once they are
 * drained, and not stronger before.
 */
#define MODEL __attribute__((weak))
typedef unsigned long size_t;

void *__crashproof_file(const char *path, size_t bytes);
void *__crashproof_about(const char *path);
int *__errno_location(void);
int __crashproof_caches_survive(void);
void crashproof_flush(const void *start, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);

enum { NODRAIN = 1, NOFLUSH = 32 };

MODEL void pmem_flush(const void *start, size_t bytes) { crashproof_flush(start, bytes); }
MODEL void pmem_drain(void) { __asm__ volatile("sfence" ::: "memory"); }
MODEL void pmem_persist(const void *start, size_t bytes) {
  pmem_flush(start, bytes);
  pmem_drain();
}
MODEL int pmem_msync(const void *start, size_t bytes) {
  pmem_persist(start, bytes);
  return 0;
}
MODEL int pmem_deep_persist(const void *start, size_t bytes) { return pmem_msync(start, bytes); }
MODEL int pmem_has_auto_flush(void) { return __crashproof_caches_survive(); }
MODEL int pmem_has_hw_drain(void) { return 0; }
MODEL int pmem_is_pmem(const void *start, size_t bytes) { return start != 0 && bytes != 0; }

/* What is known of a file besides its content; it is durable as soon as it is so. */
struct about {
  unsigned long exists, bytes;
};
static void *refuse(int error) {
  *__errno_location() = error;
  return 0;
}
enum { FILE_CREATE = 1, FILE_EXCLUSIVE = 2, NO_ENTRY = 2, EXISTS = 17, INVALID = 22 };
MODEL void *pmem_map_file(const char *path, size_t bytes, int flags, unsigned mode, size_t *mapped, int *is_pmem) {
  (void)mode;
  struct about *about = __crashproof_about(path);
  if (!(flags & FILE_CREATE) && !about->exists)
    return refuse(NO_ENTRY);
  if ((flags & FILE_CREATE) && (flags & FILE_EXCLUSIVE) && about->exists)
    return refuse(EXISTS);
  if ((flags & FILE_CREATE) ? bytes == 0 : bytes != 0)
    return refuse(INVALID);
  if (!(flags & FILE_CREATE)) {
    bytes = about->bytes;
  } else if (!about->exists || about->bytes != bytes) {
    about->bytes = bytes;
    about->exists = 1;
    pmem_persist(about, sizeof *about);
  }
  if (mapped)
    *mapped = bytes;
  if (is_pmem)
    *is_pmem = 1;
  return __crashproof_file(path, bytes);
}
MODEL int pmem_unmap(void *start, size_t bytes) { return start && bytes ? 0 : -1; }

static void *finish(void *to, size_t bytes, unsigned flags) {
  if (!(flags & NOFLUSH)) {
    pmem_flush(to, bytes);
    if (!(flags & NODRAIN))
      pmem_drain();
  }
  return to;
}
MODEL void *pmem_memcpy(void *to, const void *from, size_t bytes, unsigned flags) {
  return finish(memcpy(to, from, bytes), bytes, flags);
}
MODEL void *pmem_memmove(void *to, const void *from, size_t bytes, unsigned flags) {
  return finish(memmove(to, from, bytes), bytes, flags);
}
MODEL void *pmem_memset(void *to, int byte, size_t bytes, unsigned flags) {
  return finish(memset(to, byte, bytes), bytes, flags);
}
MODEL void *pmem_memcpy_persist(void *to, const void *from, size_t bytes) { return pmem_memcpy(to, from, bytes, 0); }
MODEL void *pmem_memcpy_nodrain(void *to, const void *from, size_t bytes) {
  return pmem_memcpy(to, from, bytes, NODRAIN);
}
MODEL void *pmem_memmove_persist(void *to, const void *from, size_t bytes) { return pmem_memmove(to, from, bytes, 0); }
MODEL void *pmem_memmove_nodrain(void *to, const void *from, size_t bytes) {
  return pmem_memmove(to, from, bytes, NODRAIN);
}
MODEL void *pmem_memset_persist(void *to, int byte, size_t bytes) { return pmem_memset(to, byte, bytes, 0); }
MODEL void *pmem_memset_nodrain(void *to, int byte, size_t bytes) { return pmem_memset(to, byte, bytes, NODRAIN); }
