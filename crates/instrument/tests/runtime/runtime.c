/*
 * The simplest runtime that satisfies crashproof_abi.h: it maps the PM window, performs each operation at
 * once, and writes one line for it to standard output. No store buffers, no crashes.
 *
 * With -DQUIET nothing is written: that is the floor for what a call into a runtime costs.
 */

#define _GNU_SOURCE
#include "crashproof_abi.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PM_BYTES = 64 << 20, GLOBALS_AT = 0x8000 };

/* Above AddressSanitizer's shadow. */
static char *const base = (char *)(CRASHPROOF_PM_BASE + (4ull << 30));
static uint64_t globals_used = GLOBALS_AT;
static int modules;

static void map(void) {
  static int mapped;
  if (mapped)
    return;
  mapped = 1;
  if (mmap(base, PM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
           0) == MAP_FAILED) {
    perror("PM window");
    abort();
  }
}

/* For programs under test. */
char *test_pm(void) {
  map();
  return base;
}

int test_modules(void) { return modules; }

/* In order with the events, unlike printf. */
void test_say(const char *text) { dprintf(1, "%s\n", text); }

#ifdef QUIET
#define LOG(site, ...) ((void)(site))
#else
static void say(const struct crashproof_site *site, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int is_library(const char *file) { return file[0] == '/' || !strncmp(file, "library/", 8); }

static void say(const struct crashproof_site *site, const char *format, ...) {
  char event[128];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(event, sizeof event, format, arguments);
  va_end(arguments);
  if ((site->tag & 0xffff0000u) != CRASHPROOF_SITE_MAGIC) {
    dprintf(1, "%s at something that is no site\n", event);
    abort();
  }
  /* Lines of the standard library differ from machine to machine, and tell a user less than the call. */
  const struct crashproof_frame *caller = site->inlined_at;
  while (is_library(site->file) && caller && is_library(caller->file))
    caller = caller->inlined_at;
  if (!is_library(site->file))
    dprintf(1, "%-40s %s:%u %s", event, site->file, site->line, site->function);
  else if (caller)
    dprintf(1, "%-40s %s:%u %s", event, caller->file, caller->line, caller->function);
  else
    dprintf(1, "%-40s in a library", event);
  if (getenv("TEST_INLINED"))
    for (const struct crashproof_frame *f = site->inlined_at; f; f = f->inlined_at)
      dprintf(1, " < %s:%u", f->function, f->line);
  if (site->text)
    dprintf(1, " \"%s\"", site->text);
  dprintf(1, "\n");
}
#define LOG(site, ...) say(site, __VA_ARGS__)
#endif

/* Addresses in PM as offsets; others would differ from run to run. */
static __attribute__((unused)) const char *where(const void *address) {
  static char text[4][32];
  static int turn;
  char *out = text[turn++ % 4];
  if (((uint64_t)address >> CRASHPROOF_PM_SHIFT) == CRASHPROOF_PM_WINDOW)
    snprintf(out, sizeof text[0], "pm+%#lx", (unsigned long)((const char *)address - base));
  else
    snprintf(out, sizeof text[0], address ? "volatile" : "nowhere");
  return out;
}

/* Values that are addresses of volatile memory differ from run to run. */
static __attribute__((unused)) const char *number(uint64_t value) {
  static char text[32];
  int is_address = value >= 0x550000000000 && value < 0x800000000000;
  snprintf(text, sizeof text, is_address ? "address" : "%#lx", (unsigned long)value);
  return text;
}

static __attribute__((unused)) const char *bytes_of(const void *from, uint64_t bytes) {
  static char text[160];
  char *out = text;
  for (uint64_t i = 0; i < bytes && i < 64; i++)
    out += sprintf(out, "%02x", ((const unsigned char *)from)[i]);
  *out = 0;
  return text;
}

void __crashproof_register_module(uint32_t version, const struct crashproof_site *begin,
                                  const struct crashproof_site *end) {
  map();
  modules++;
  if (version != CRASHPROOF_ABI_VERSION)
    abort();
  for (const struct crashproof_site *site = begin; site < end; site++)
    if ((site->tag & 0xffff0000u) != CRASHPROOF_SITE_MAGIC || !site->file || !site->function)
      abort();
}

static void place(struct crashproof_pm_global *global) {
  if (global->address)
    return;
  globals_used = (globals_used + global->align - 1) & -global->align;
  global->address = base + globals_used;
  globals_used += global->size;
  if (global->init)
    memcpy(global->address, global->init, global->size);
  for (uint64_t i = 0; i < global->fixup_count; i++) {
    const struct crashproof_pm_fixup *fixup = &global->fixups[i];
    place(fixup->target);
    *(char **)((char *)global->address + fixup->place) = (char *)fixup->target->address + fixup->addend;
  }
}

void __crashproof_register_globals(struct crashproof_pm_global *const *begin,
                                   struct crashproof_pm_global *const *end,
                                   const struct crashproof_pm_fixup *fixups,
                                   const struct crashproof_pm_fixup *fixups_end) {
  map();
  for (; begin < end; begin++)
    place(*begin);
  for (; fixups < fixups_end; fixups++) {
    place(fixups->target);
    *(char **)fixups->place = (char *)fixups->target->address + fixups->addend;
  }
}

#define SIZED(N, TYPE)                                                                                  \
  uint64_t __crashproof_load##N(const void *address, const struct crashproof_site *site) {              \
    TYPE value;                                                                                         \
    memcpy(&value, address, N);                                                                         \
    LOG(site, "load" #N " %s = %s", where(address), number(value));                                    \
    return value;                                                                                       \
  }                                                                                                     \
  void __crashproof_store##N(void *address, uint64_t value, const struct crashproof_site *site) {       \
    TYPE narrow = (TYPE)value;                                                                          \
    memcpy(address, &narrow, N);                                                                        \
    LOG(site, "store" #N " %s = %s", where(address), number(narrow));                                  \
  }

SIZED(1, uint8_t)
SIZED(2, uint16_t)
SIZED(4, uint32_t)
SIZED(8, uint64_t)

void __crashproof_load_n(void *destination, const void *address, uint64_t bytes,
                         const struct crashproof_site *site) {
  memcpy(destination, address, bytes);
  LOG(site, "load_n %s = %s", where(address), bytes_of(address, bytes));
}

void __crashproof_store_n(void *address, const void *source, uint64_t bytes,
                          const struct crashproof_site *site) {
  memcpy(address, source, bytes);
  LOG(site, "store_n %s = %s", where(address), bytes_of(address, bytes));
}

void __crashproof_nt_store4(void *address, uint64_t value, const struct crashproof_site *site) {
  memcpy(address, &value, 4);
  LOG(site, "nt_store4 %s = %#lx", where(address), (unsigned long)(uint32_t)value);
}

void __crashproof_nt_store8(void *address, uint64_t value, const struct crashproof_site *site) {
  memcpy(address, &value, 8);
  LOG(site, "nt_store8 %s = %#lx", where(address), (unsigned long)value);
}

void __crashproof_nt_store_n(void *address, const void *source, uint64_t bytes,
                             const struct crashproof_site *site) {
  memcpy(address, source, bytes);
  LOG(site, "nt_store_n %s = %s", where(address), bytes_of(address, bytes));
}

static __attribute__((unused)) const char *operation_name(uint32_t operation) {
  static const char *const names[] = {"xchg", "add", "sub", "and", "or", "xor", "set"};
  return operation < 7 ? names[operation] : "?";
}

static unsigned __int128 apply(uint32_t operation, unsigned __int128 old, unsigned __int128 operand) {
  switch (operation) {
  case CRASHPROOF_XCHG:
  case CRASHPROOF_SET:
    return operand;
  case CRASHPROOF_ADD:
    return old + operand;
  case CRASHPROOF_SUB:
    return old - operand;
  case CRASHPROOF_AND:
    return old & operand;
  case CRASHPROOF_OR:
    return old | operand;
  case CRASHPROOF_XOR:
    return old ^ operand;
  }
  abort();
}

uint64_t __crashproof_rmw(void *address, uint32_t bytes, uint32_t operation, uint64_t operand,
                          const struct crashproof_site *site) {
  uint64_t old = 0;
  memcpy(&old, address, bytes);
  uint64_t value = (uint64_t)apply(operation, old, operand);
  memcpy(address, &value, bytes);
  LOG(site, "%s%u %s: %#lx, %#lx", operation_name(operation), bytes, where(address), (unsigned long)old,
      (unsigned long)operand);
  return old;
}

void __crashproof_rmw16(void *address, uint32_t operation, const void *operand, void *old,
                        const struct crashproof_site *site) {
  unsigned __int128 before, by, after;
  memcpy(&before, address, 16);
  memcpy(&by, operand, 16);
  after = apply(operation, before, by);
  memcpy(address, &after, 16);
  memcpy(old, &before, 16);
  LOG(site, "%s16 %s = %s", operation_name(operation), where(address), bytes_of(address, 16));
}

uint64_t __crashproof_cas(void *address, uint32_t bytes, uint64_t expected, uint64_t desired,
                          const struct crashproof_site *site) {
  uint64_t old = 0;
  memcpy(&old, address, bytes);
  if (old == expected)
    memcpy(address, &desired, bytes);
  LOG(site, "cas%u %s: %#lx, %#lx -> %#lx", bytes, where(address), (unsigned long)old,
      (unsigned long)expected, (unsigned long)desired);
  return old;
}

uint32_t __crashproof_cas16(void *address, const void *expected, const void *desired, void *old,
                            const struct crashproof_site *site) {
  memcpy(old, address, 16);
  int equal = memcmp(old, expected, 16) == 0;
  if (equal)
    memcpy(address, desired, 16);
  LOG(site, "cas16 %s %s", where(address), equal ? "stored" : "failed");
  return equal;
}

void __crashproof_memcpy(void *destination, const void *source, uint64_t bytes,
                         const struct crashproof_site *site) {
  memcpy(destination, source, bytes);
  LOG(site, "memcpy %s <- %s, %lu", where(destination), where(source), (unsigned long)bytes);
}

void __crashproof_memmove(void *destination, const void *source, uint64_t bytes,
                          const struct crashproof_site *site) {
  memmove(destination, source, bytes);
  LOG(site, "memmove %s <- %s, %lu", where(destination), where(source), (unsigned long)bytes);
}

void __crashproof_memset(void *destination, uint32_t byte, uint64_t bytes,
                         const struct crashproof_site *site) {
  memset(destination, (int)byte, bytes);
  LOG(site, "memset %s = %#x, %lu", where(destination), byte & 0xff, (unsigned long)bytes);
}

void __crashproof_gather(void *destination, const void *const *addresses, const uint8_t *mask,
                         uint32_t lane_bytes, uint32_t lanes, const struct crashproof_site *site) {
  for (uint32_t lane = 0; lane < lanes; lane++)
    if (mask[lane]) {
      memcpy((char *)destination + lane * lane_bytes, addresses[lane], lane_bytes);
      LOG(site, "gather[%u] %s = %s", lane, where(addresses[lane]), bytes_of(addresses[lane], lane_bytes));
    }
}

void __crashproof_scatter(void *const *addresses, const void *source, const uint8_t *mask,
                          uint32_t lane_bytes, uint32_t lanes, const struct crashproof_site *site) {
  for (uint32_t lane = 0; lane < lanes; lane++)
    if (mask[lane]) {
      memcpy(addresses[lane], (const char *)source + lane * lane_bytes, lane_bytes);
      LOG(site, "scatter[%u] %s = %s", lane, where(addresses[lane]), bytes_of(addresses[lane], lane_bytes));
    }
}

void __crashproof_clflush(const void *address, const struct crashproof_site *site) {
  LOG(site, "clflush %s", where(address));
}
void __crashproof_clflushopt(const void *address, const struct crashproof_site *site) {
  LOG(site, "clflushopt %s", where(address));
}
void __crashproof_clwb(const void *address, const struct crashproof_site *site) {
  LOG(site, "clwb %s", where(address));
}
void __crashproof_sfence(const struct crashproof_site *site) { LOG(site, "sfence"); }
void __crashproof_mfence(const struct crashproof_site *site) { LOG(site, "mfence"); }
/* Not logged: "sync" and "locked" tell of the same accesses. */
void __crashproof_before(const void *address, uint64_t bytes, const struct crashproof_site *site) {
  (void)address, (void)bytes, (void)site;
}
void __crashproof_locked(const void *address, uint32_t stored, const struct crashproof_site *site) {
  (void)address;
  LOG(site, stored ? "locked" : "locked, stored nothing");
}
void __crashproof_sync(const void *address, const struct crashproof_site *site) {
  (void)address;
  LOG(site, "sync");
}
uint64_t __crashproof_cycles(void) {
  static uint64_t cycles;
  return cycles++;
}
uint64_t __crashproof_random(void) { return 4; }
void __crashproof_registered(const void *module) { (void)module; }

static __attribute__((unused)) const char *flag_names(uint32_t flags) {
  static char text[8];
  snprintf(text, sizeof text, "%s%s%s%s", flags & CRASHPROOF_ASM_READ ? "r" : "",
           flags & CRASHPROOF_ASM_WRITE ? "w" : "", flags & CRASHPROOF_ASM_LOCKED ? "l" : "",
           flags & CRASHPROOF_ASM_NONTEMPORAL ? "n" : "");
  return text;
}

void __crashproof_asm_before(void *address, uint64_t bytes, uint32_t flags,
                             const struct crashproof_site *site) {
  (void)bytes, (void)flags;
  LOG(site, "asm_before %s = %s %s", where(address), bytes_of(address, bytes), flag_names(flags));
}

void __crashproof_asm_after(void *address, uint64_t bytes, uint32_t flags,
                            const struct crashproof_site *site) {
  (void)bytes, (void)flags;
  LOG(site, "asm_after %s = %s %s", where(address), bytes_of(address, bytes), flag_names(flags));
}

void __crashproof_unknown(const void *address, const struct crashproof_site *site) {
  LOG(site, "unknown %s", where(address));
}
