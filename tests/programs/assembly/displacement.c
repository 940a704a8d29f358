// The address of an assembly operand is base, index and displacement together: one that is a line off flushes the wrong line.
//@ cflags: -mclwb
//@ variant right: -DDISPLACEMENT=128
//@ check: clean
//@ lint: clean
//@ prove: proved
//@ variant wrong: -DDISPLACEMENT=64
//@ check: fails at LOST
//@ lint: unflushed-write at LOST
//@ lint: flush-unmodified at FLUSH
//@ prove: refuted at claim-violated
//@ variant store: -DSTORE
//@ check: fails at STORED
//@ lint: unflushed-write at STORED
//@ lint: flush-unmodified at OTHER
//@ prove: unknown (is not modeled)
#include <crashproof.h>

struct root {
  long lines[4][8];
};
PERSISTENT struct root root __attribute__((aligned(64)));
PERSISTENT long done __attribute__((aligned(64)));

void recover(void) {
  crashproof_assert(!done || root.lines[2][0] == 1); // MARK: claim-violated
}

int main(void) {
  if (crashproof_crashes()) {
    recover();
    return 0;
  }
#ifdef STORE
  // What is flushed is another line than what is stored to.
  __asm__ volatile("movq $1, 128(%0)" ::"r"(&root) : "memory"); // MARK: STORED
  crashproof_persist(&root.lines[0], 64); // MARK: OTHER
#else
  root.lines[2][0] = 1; // MARK: LOST
#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number
  __asm__ volatile("clwb " TEXT(DISPLACEMENT) "(%0)" ::"r"(&root) : "memory"); // MARK: FLUSH
  __asm__ volatile("sfence" ::: "memory");
#endif
  done = 1;
  crashproof_persist(&done, sizeof done);
  return 0;
}
