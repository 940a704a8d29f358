// Section 6.4: patterns that cope with what is not persistent yet, and say so.
//
// run: -DCHECKSUM
// none
// run: -DCHECKSUM -DREAD_AFTERWARDS
// error lost=DATA survived=SUM window=DATA..SUM primary old late=PERSIST
// run: -DTOLERATED_LOAD
// none
// run: -DTOLERATED_STORE
// none
// run: -DPLAIN
// error lost=DATA survived=SUM window=DATA..SUM primary old late=PERSIST
// run: -DPLAIN suppress=DATA
// none
// run: -DPLAIN suppress=PLAIN_READ
// none

#include <crashproof.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) data, sum;

int main(void) {
  if (!crashproof_crashes()) {
#ifdef TOLERATED_STORE
    (void)crashproof_tolerate(data.at = 5);
#else
    data.at = 5; // DATA
#endif
    sum.at = 5 * 3; // SUM
    crashproof_persist(&data, 8); // PERSIST
    crashproof_persist(&sum, 8);
    return 0;
  }
#ifdef CHECKSUM
  crashproof_checksum_begin();
  int matches = sum.at != 0 && data.at * 3 == sum.at;
  crashproof_checksum_end(matches);
#ifdef READ_AFTERWARDS
  volatile long unsure = sum.at + data.at;
  (void)unsure;
#endif
  return 0;
#elif defined TOLERATED_LOAD
  volatile long s = sum.at;
  volatile long d = crashproof_tolerate(data.at);
  (void)d, (void)s;
#else
  volatile long s = sum.at;
  volatile long d = data.at; // PLAIN_READ
  (void)d, (void)s;
#endif
  return 0;
}
