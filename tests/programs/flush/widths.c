// Parts of a word, and the word: stores of 1, 2, 4 and 8 bytes on one another.
//@ check: clean
//@ lint: unflushed-write at unflushed-write
//@ lint: unflushed-write at unflushed-write-2
//@ lint: unflushed-write at unflushed-write-3
//@ lint: unflushed-write at unflushed-write-4
//@ prove: proved
#include <crashproof.h>
PERSISTENT union {
  unsigned long whole;
  unsigned char bytes[8];
  unsigned short halves[4];
  unsigned words[2];
} u __attribute__((aligned(64)));
int main(void) {
  u.whole = 0x0102030405060708; // MARK: unflushed-write
  u.bytes[0] = 9; // MARK: unflushed-write-2
  u.halves[1] = 0xaaaa; // MARK: unflushed-write-3
  u.words[1] = 0; // MARK: unflushed-write-4
  return 0;
}
void recover(void) {
  unsigned long seen = u.whole;
  crashproof_assert(seen == 0 || seen == 0x0102030405060708 || seen == 0x0102030405060709 ||
                    seen == 0x01020304aaaa0709 || seen == 0x00000000aaaa0709);
  if (u.bytes[0] == 9)
    crashproof_assert(u.bytes[1] == 7);
}
