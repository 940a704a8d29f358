/*
 * libpmem, as the prover executes it. A file is one persistent object, zero at first; that it exists is never lost.
 * Copies are plain stores and flushes: where libpmem would use non-temporal stores, this is as strong once they are
 * drained, and not stronger before.
 */
#define MODEL __attribute__((weak))
typedef unsigned long size_t;

void *__crashproof_file(const char *path, size_t bytes);
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

MODEL void *pmem_map_file(const char *path, size_t bytes, int flags, unsigned mode, size_t *mapped, int *is_pmem) {
  (void)flags, (void)mode;
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
