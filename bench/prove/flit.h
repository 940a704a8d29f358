/*
 * A register with flush-if-tagged (Wei et al., PPoPP 2022): a writer raises a counter while its value may not be
 * persistent yet, and a reader who finds the counter raised flushes for itself.
 *
 * Clients have two registers, x and y, each with its counter. Every value is written once, so that what survived
 * tells who wrote it.
 *
 *   ld  load x              w (first letter of a thread)  write x
 *   u   update (exchange) x; a second u of a thread updates y with what the first one found
 *   w (last letter), -w     write a flag; -w2 is two threads that do
 *
 * Flushes: 1 of a write, 2 of an update, 3 of a load.
 */
#include "client.h"

PERSISTENT struct LINE cell {
  atomic_long value;
} x, y;
/* Volatile: after a crash nobody is in the middle of a write. */
static struct LINE counter {
  atomic_long raised;
} x_counter, y_counter;

static void flit_write(struct cell *cell, struct counter *counter, long value) {
  atomic_fetch_add(&counter->raised, 1);
  atomic_store_explicit(&cell->value, value, memory_order_release);
  FLUSH(1, cell);
  atomic_fetch_sub(&counter->raised, 1);
}

static long flit_update(struct cell *cell, struct counter *counter, long value) {
  atomic_fetch_add(&counter->raised, 1);
  long old = atomic_exchange(&cell->value, value);
  FLUSH(2, cell);
  atomic_fetch_sub(&counter->raised, 1);
  return old;
}

static long flit_load(struct cell *cell, struct counter *counter) {
  long value = atomic_load_explicit(&cell->value, memory_order_acquire);
  if (atomic_load_explicit(&counter->raised, memory_order_acquire) != 0)
    FLUSH(3, cell);
  return value;
}

static void write_x(long value) { flit_write(&x, &x_counter, value); }
static long load_x(void) { return flit_load(&x, &x_counter); }
static long u(long value) { return flit_update(&x, &x_counter, value); }
/* Thread t: x gets t, and then y says so, together with what t found in x. */
static void uu(long t) {
  long old = u(t);
  flit_update(&y, &y_counter, t * 16 + old + 1);
}

/* t's update of x, which found `old`, came back: it, or something later, is there. */
static void check_updated(long t, long old) {
  crashproof_assert(x.value != 0);
  crashproof_assert(x.value == t || x.value != old);
}
/* If y is persistent, so is the update of x that came before it. */
static void check_y(void) {
  long seen = y.value;
  if (seen)
    check_updated(seen / 16, seen % 16 - 1);
}
