/*
 * crashproof_abi.h: what instrumented programs and the crashproof runtime say to each other.
 *
 * The plugin (crates/instrument) emits calls to the functions below, the runtime implements them. The
 * same interface for Rust is the crate crashproof-abi; a test compares the two.
 *
 * PM is a fixed window of virtual addresses: p is PM iff (p >> 44) == 1. Instrumented code asks this
 * inline before each access it cannot prove volatile. Volatile memory is accessed by the program's own
 * instruction; for PM the runtime is called and the instruction is not executed: the runtime performs the
 * access. What the runtime must expect:
 *
 *   - Calls come from any thread, from signal handlers, and from constructors that run before main.
 *   - Functions must not unwind. They may end or fork the process, or switch threads.
 *   - Values are little-endian bit patterns of the access, zero-extended to 64 bits.
 *   - Pointers named destination, source, operand, expected, desired, old, addresses and mask point to
 *     volatile memory of the caller, except those of memcpy, memmove and memset.
 *   - site is never null and points into a registered table.
 *   - Accesses may be unaligned and may cross cache lines.
 */

#ifndef CRASHPROOF_ABI_H
#define CRASHPROOF_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CRASHPROOF_ABI_VERSION 4

#define CRASHPROOF_PM_SHIFT 44
#define CRASHPROOF_PM_WINDOW 1
/* AddressSanitizer's shadow reaches to just below base + 2 GiB: map nothing in the first 4 GiB to live
   with it. */
#define CRASHPROOF_PM_BASE ((uint64_t)CRASHPROOF_PM_WINDOW << CRASHPROOF_PM_SHIFT)

/* ------------------------------------------------------------------ sites */

/* A call that was inlined: `function` called the next inner frame here. */
struct crashproof_frame {
  uint32_t line;
  uint32_t column;
  const char *file;
  const char *function;
  const struct crashproof_frame *inlined_at; /* next outer call, or null */
};

/* A place in the source. One static object for each distinct place of a module, all in the section
   crashproof_sites, so the address identifies a place within a run. */
struct crashproof_site {
  uint32_t tag;     /* CRASHPROOF_SITE_MAGIC | flags | kind */
  uint32_t size;    /* bytes accessed; 0 if an argument says, or there are none */
  uint32_t line;    /* 0 if the compiler knows none */
  uint32_t column;
  const char *file;     /* as the compiler was given it; never null */
  const char *function; /* demangled; never null */
  const struct crashproof_frame *inlined_at;
  const char *text; /* UNKNOWN: why; ASM: the assembly; else null */
};

#define CRASHPROOF_SITE_MAGIC 0xC5A70000u
#define CRASHPROOF_FLAG_ATOMIC 0x100u   /* atomic in the source language */
#define CRASHPROOF_FLAG_VOLATILE 0x200u /* volatile-qualified */

enum {
  CRASHPROOF_LOAD = 1,
  CRASHPROOF_STORE = 2,
  CRASHPROOF_NT_STORE = 3,
  CRASHPROOF_RMW = 4,
  CRASHPROOF_CAS = 5,
  CRASHPROOF_MEMCPY = 6,
  CRASHPROOF_MEMMOVE = 7,
  CRASHPROOF_MEMSET = 8,
  CRASHPROOF_GATHER = 9,
  CRASHPROOF_SCATTER = 10,
  CRASHPROOF_CLFLUSH = 11,
  CRASHPROOF_CLFLUSHOPT = 12,
  CRASHPROOF_CLWB = 13,
  CRASHPROOF_SFENCE = 14,
  CRASHPROOF_MFENCE = 15,
  CRASHPROOF_ASM = 16,
  CRASHPROOF_UNKNOWN = 17,
  CRASHPROOF_PAUSE = 18
};

/* ---------------------------------------------------------- registration */

/* First call of every instrumented module, from a constructor of priority 0. A program in which no
   module registers was not built with crashproof. The range may be empty. A site of kind UNKNOWN in it
   names something in the module that is not understood; a verdict is UNKNOWN if it may have run (see
   __crashproof_unknown; naked functions and assembly at file scope have no such call). */
void __crashproof_register_module(uint32_t version, const struct crashproof_site *begin,
                                  const struct crashproof_site *end);

/* Persistent globals, __attribute__((section("crashproof_pm"))). The program reaches a global through
   the first field of its descriptor, which the runtime fills in: same address for the same name and size
   in every run. Several modules may register one descriptor; a descriptor may be met first as the target
   of a fixup. The content is init (or zero) with its fixups applied if the pool is new, and what
   survived otherwise. */
struct crashproof_pm_fixup;
struct crashproof_pm_global {
  void *address; /* null until the runtime sets it */
  uint64_t size;
  uint64_t align;
  const void *init; /* size bytes, or null if all zero */
  const char *name; /* with "file:" before it if local to its file */
  const struct crashproof_pm_fixup *fixups; /* place is an offset into this global */
  uint64_t fixup_count;
};

/* A pointer-sized place that must hold target->address + addend. */
struct crashproof_pm_fixup {
  uint64_t place;
  struct crashproof_pm_global *target;
  int64_t addend;
};

/* From a constructor of priority 1, if there is something to say. In [fixups, fixups_end), place is an
   address in volatile memory; those must be written in every run. Either range may be empty. */
void __crashproof_register_globals(struct crashproof_pm_global *const *begin,
                                   struct crashproof_pm_global *const *end,
                                   const struct crashproof_pm_fixup *fixups,
                                   const struct crashproof_pm_fixup *fixups_end);

/* From a constructor of every instrumented module that comes after those that register (priority 2), and
   before the program's own: whatever is linked together has registered. module is an address in it. */
void __crashproof_registered(const void *module);

/* ----------------------------------------------------------------- loads */

uint64_t __crashproof_load1(const void *address, const struct crashproof_site *site);
uint64_t __crashproof_load2(const void *address, const struct crashproof_site *site);
uint64_t __crashproof_load4(const void *address, const struct crashproof_site *site);
uint64_t __crashproof_load8(const void *address, const struct crashproof_site *site);
/* Every other size. With the flag ATOMIC and 16 bytes, the load is atomic. */
void __crashproof_load_n(void *destination, const void *address, uint64_t bytes,
                         const struct crashproof_site *site);

/* ---------------------------------------------------------------- stores */

/* Relaxed and release stores are plain; sequentially consistent ones are an RMW with SET. */
void __crashproof_store1(void *address, uint64_t value, const struct crashproof_site *site);
void __crashproof_store2(void *address, uint64_t value, const struct crashproof_site *site);
void __crashproof_store4(void *address, uint64_t value, const struct crashproof_site *site);
void __crashproof_store8(void *address, uint64_t value, const struct crashproof_site *site);
void __crashproof_store_n(void *address, const void *source, uint64_t bytes,
                          const struct crashproof_site *site);

/* Non-temporal: movnti, movnt of vectors, movdiri. */
void __crashproof_nt_store4(void *address, uint64_t value, const struct crashproof_site *site);
void __crashproof_nt_store8(void *address, uint64_t value, const struct crashproof_site *site);
void __crashproof_nt_store_n(void *address, const void *source, uint64_t bytes,
                             const struct crashproof_site *site);

/* ---------------------------------------------------------------- locked */

enum {
  CRASHPROOF_XCHG = 0,
  CRASHPROOF_ADD = 1,
  CRASHPROOF_SUB = 2,
  CRASHPROOF_AND = 3,
  CRASHPROOF_OR = 4,
  CRASHPROOF_XOR = 5,
  CRASHPROOF_SET = 6 /* as XCHG, but nobody uses the old value: nothing is read */
};

/* bytes is 1, 2, 4 or 8; returns the old value. All are full fences, a failed cas too. */
uint64_t __crashproof_rmw(void *address, uint32_t bytes, uint32_t operation, uint64_t operand,
                          const struct crashproof_site *site);
void __crashproof_rmw16(void *address, uint32_t operation, const void *operand, void *old,
                        const struct crashproof_site *site);
uint64_t __crashproof_cas(void *address, uint32_t bytes, uint64_t expected, uint64_t desired,
                          const struct crashproof_site *site);
/* Returns 1 if it stored; always writes old. */
uint32_t __crashproof_cas16(void *address, const void *expected, const void *desired, void *old,
                            const struct crashproof_site *site);

/* ---------------------------------------------------------------- blocks */

/* Called if at least one pointer is in PM; the other may be anywhere. bytes may be 0. */
void __crashproof_memcpy(void *destination, const void *source, uint64_t bytes,
                         const struct crashproof_site *site);
void __crashproof_memmove(void *destination, const void *source, uint64_t bytes,
                          const struct crashproof_site *site);
void __crashproof_memset(void *destination, uint32_t byte, uint64_t bytes,
                         const struct crashproof_site *site);

/* --------------------------------------------------------------- vectors */

/* For each lane whose mask byte is not 0, lowest first. Called if an enabled lane is in PM; the others
   may be anywhere. Disabled lanes of destination keep their value; disabled addresses may be garbage. */
void __crashproof_gather(void *destination, const void *const *addresses, const uint8_t *mask,
                         uint32_t lane_bytes, uint32_t lanes, const struct crashproof_site *site);
void __crashproof_scatter(void *const *addresses, const void *source, const uint8_t *mask,
                          uint32_t lane_bytes, uint32_t lanes, const struct crashproof_site *site);

/* ---------------------------------------------------- flushes and fences */

/* An address outside PM is to be ignored: assembly that flushes several lines reports all of them. */
void __crashproof_clflush(const void *address, const struct crashproof_site *site);
void __crashproof_clflushopt(const void *address, const struct crashproof_site *site);
void __crashproof_clwb(const void *address, const struct crashproof_site *site);

/* These replace the instruction. A runtime that lets threads run in parallel must fence itself. */
void __crashproof_sfence(const struct crashproof_site *site);
void __crashproof_mfence(const struct crashproof_site *site);

/* Before an atomic or volatile access of volatile memory, which the site describes: a place where threads may
   be switched if the run explores schedules. */
void __crashproof_before(const void *address, uint64_t bytes, const struct crashproof_site *site);

/* After a locked instruction on volatile memory: a full fence of this thread, and a place where threads
   may be switched. stored is 0 if memory is as it was before, as after a failed compare-and-swap. */
void __crashproof_locked(const void *address, uint32_t stored, const struct crashproof_site *site);

/* After an atomic or volatile access of volatile memory that is no fence, and after pause, whose address is
   null: a place where threads may be switched, and must be sooner or later, since programs spin here. */
void __crashproof_sync(const void *address, const struct crashproof_site *site);

/* In place of rdtsc, and of rdrand and rdseed: a clock and numbers that are the same in every run. */
uint64_t __crashproof_cycles(void);
uint64_t __crashproof_random(void);

/* -------------------------------------------------------------- assembly */

#define CRASHPROOF_ASM_READ 1u
#define CRASHPROOF_ASM_WRITE 2u
#define CRASHPROOF_ASM_LOCKED 4u /* an RMW, and a full fence */
#define CRASHPROOF_ASM_NONTEMPORAL 8u

/* Around inline assembly whose instructions run as they are, for each range of PM it accesses. Before:
   memory must hold what this thread sees there. After: what differs was written by the assembly. An
   assembly statement with several ranges calls before for all of them, then after for all of them. */
void __crashproof_asm_before(void *address, uint64_t bytes, uint32_t flags,
                             const struct crashproof_site *site);
void __crashproof_asm_after(void *address, uint64_t bytes, uint32_t flags,
                            const struct crashproof_site *site);

/* Something not understood is about to run, site->text says what. address is the PM it was given, or
   null if it is not even known whether it touches PM. From here on verdicts are UNKNOWN. */
void __crashproof_unknown(const void *address, const struct crashproof_site *site);

#ifdef __cplusplus
}
#endif

#endif
