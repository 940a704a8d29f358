// Handlers of its own for SIGSEGV and SIGTRAP.
#include "pool.h"
#include <setjmp.h>
#include <signal.h>
struct s { long data; char pad[56]; long valid; };
static sigjmp_buf back;
static volatile int traps;
static void on_fault(int n) { siglongjmp(back, 1); }
static void on_trap(int n) { traps++; }
int main(void) {
  struct s *s = pool(4096);
  signal(SIGSEGV, on_fault);
  signal(SIGTRAP, on_trap);
  int caught = 0;
  if (sigsetjmp(back, 1))
    caught = 1;
  else
    *(volatile int *)8 = 1;
  __asm__ volatile("int3");
  assert(caught && traps == 1);
  if (s->valid) {
    assert(s->data == 9);
    return 0;
  }
  s->data = 9; // MARK
  CORRECT(persist(&s->data, 8));
  s->valid = 1;
  persist(&s->valid, 8);
}
