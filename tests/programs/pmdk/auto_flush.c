// With eADR libpmem says so, and programs leave their flushes out.
//@ flags check: --eadr
//@ flags prove: --eadr
//@ check: clean
//@ lint: skip (what lint judges does not depend on eADR)
//@ prove: proved
#include <crashproof.h>
int pmem_has_auto_flush(void);
PERSISTENT long data __attribute__((aligned(64)));
PERSISTENT long flag __attribute__((aligned(64)));
int main(void) {
  data = 42;
  if (!pmem_has_auto_flush())
    flag = 2;
  flag = 1;
  return 0;
}
void recover(void) {
  crashproof_assert(flag != 2);
  if (flag)
    crashproof_assert(data == 42);
}
