/*
 * crashproof.h: persistent memory for programs checked with crashproof.
 *
 * Nothing here is needed to check a program that maps its own persistent memory (mmap under the PM path,
 * libpmem, libpmem2, libpmemobj). It is for small programs, tests and examples:
 *
 *     #include <crashproof.h>
 *
 *     PERSISTENT long counter;                       // a global in persistent memory
 *     struct node *head = crashproof_root(sizeof *head);      // the root object, zero at first
 *     struct node *n = crashproof_alloc(sizeof *n);  // zeroed, starts on a cache line of its own
 *     crashproof_flush(n, sizeof *n); crashproof_drain();
 *
 * After a crash everything is at the same address as before.
 */

#ifndef CRASHPROOF_H
#define CRASHPROOF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Always inlined, so that reports name the caller. */
#define CRASHPROOF_INLINE static inline __attribute__((always_inline))

/* A global (or static) variable in persistent memory. Its initial value is there before the first run and
   is not set again afterwards. */
#define PERSISTENT __attribute__((section("crashproof_pm")))

/* The root object: the same memory in every run, zero until first written. One size, one object. */
void *crashproof_root(size_t bytes);

/* Zeroed persistent memory, aligned to a cache line; null if there is no more. The allocator itself never
   loses anything in a crash: what was allocated stays allocated. */
void *crashproof_alloc(size_t bytes);

/* Gives memory back. It is not handed out again, so that a use after free shows. */
void crashproof_free(void *object);

/* How many crashes there have been: 0 in the first run. Outside of the checker always 0. */
uint32_t crashproof_crashes(void);

/* Writes every line of the range back (clwb); effective after crashproof_drain. */
#ifdef __CRASHPROOF_PROVE__
void crashproof_flush(const void *start, size_t bytes);
#else
CRASHPROOF_INLINE void crashproof_flush(const void *start, size_t bytes) {
  uintptr_t line = (uintptr_t)start & ~(uintptr_t)63;
  for (; line < (uintptr_t)start + bytes; line += 64)
    __asm__ volatile("clwb %0" : "+m"(*(volatile char *)line));
}
#endif

/* Waits for the write-backs begun before (sfence). */
CRASHPROOF_INLINE void crashproof_drain(void) { __asm__ volatile("sfence" ::: "memory"); }

/* Both: the range is persistent when it returns. */
CRASHPROOF_INLINE void crashproof_persist(const void *start, size_t bytes) {
  crashproof_flush(start, bytes);
  crashproof_drain();
}

/* Like assert, but not removed by NDEBUG, and known to the checker. */
#define crashproof_assert(condition)                                                                         \
  ((condition) ? (void)0 : __crashproof_assert_failed(#condition, __FILE__, __LINE__, __func__))
__attribute__((noreturn)) void __crashproof_assert_failed(const char *condition, const char *file,
                                                          uint32_t line, const char *function);

/* Goes on only if the condition holds; otherwise the run is of no interest, which is no error. */
#ifdef __CRASHPROOF_PROVE__
#define crashproof_assume(condition) __crashproof_assume((condition) != 0)
void __crashproof_assume(int condition);
#else
#define crashproof_assume(condition) ((condition) ? (void)0 : _exit(0))
__attribute__((noreturn)) void _exit(int status);
#endif

/* Any value. `crashproof prove` considers all of them; a run has just one, which is 0. */
#ifdef __CRASHPROOF_PROVE__
#define CRASHPROOF_NONDET(name, type) type crashproof_nondet_##name(void);
#else
#define CRASHPROOF_NONDET(name, type)                                                                        \
  CRASHPROOF_INLINE type crashproof_nondet_##name(void) { return 0; }
#endif
CRASHPROOF_NONDET(char, char)
CRASHPROOF_NONDET(int, int)
CRASHPROOF_NONDET(long, long)
CRASHPROOF_NONDET(uint, unsigned)
CRASHPROOF_NONDET(ulong, unsigned long)
#undef CRASHPROOF_NONDET

/* Around loads that a checksum protects, in recovery: what they read counts only if the checksum matched.
       crashproof_checksum_begin();
       int ok = checksum(log, bytes) == log->sum;
       crashproof_checksum_end(ok);
   The checker then tries what memory held at any one moment, and every content of every single line; of other
   torn contents it takes for granted that the checksum does not match and that recovery treats them alike. The
   report says how many they are. A checksum that is seen to match torn contents is not trusted. */
void crashproof_checksum_begin(void);
void crashproof_checksum_end(int matched);

/* Strands, for `crashproof check --model strand`: what is stored between begin and end persists without
   regard to other strands, until they are joined (or fenced, outside of any strand). Two strands that may run
   concurrently must not write the same memory, nor one read what the other writes. */
void crashproof_strand_begin(void);
void crashproof_strand_end(void);
void crashproof_strand_join(void);

/* Epochs, for `crashproof check --model epoch`: what one stores may persist in any order, but before what the
   next one stores, so a fence belongs between two of them. */
void crashproof_epoch_begin(void);
void crashproof_epoch_end(void);

/* Around accesses whose order of persistence the algorithm does not depend on, so that robustness does not count
   them: loads that cope with what is not persistent yet (tagged pointers, link-and-persist), and stores that
   may be lost at any time (statistics, clearing the tag). For one expression:
       struct node *next = crashproof_tolerate(node->next);
       crashproof_tolerate(table->hits++); */
void crashproof_tolerate_begin(void);
void crashproof_tolerate_end(void);
#ifdef __cplusplus
#define CRASHPROOF_AUTO auto
#else
#define CRASHPROOF_AUTO __auto_type
#endif
#define crashproof_tolerate(expression)                                                                      \
  __extension__({                                                                                            \
    crashproof_tolerate_begin();                                                                             \
    CRASHPROOF_AUTO crashproof_value_ = (expression);                                                        \
    crashproof_tolerate_end();                                                                               \
    crashproof_value_;                                                                                       \
  })

#ifdef __cplusplus
}
#endif

#endif
