// Section 6.4: patterns that cope with what is not persistent yet, and say so.
//@ lint: clean, no warnings
//@ variant checksum: -DCHECKSUM
//@ check: clean
//@ prove: vacuous
//@ robust: refuted at DATA
//@ variant checksum-read-afterwards: -DCHECKSUM -DREAD_AFTERWARDS
//@ check: missing-flush at DATA, survived SUM, window DATA..SUM, primary
//@ prove: vacuous
//@ robust: refuted at DATA
//@ variant tolerated-load: -DTOLERATED_LOAD
//@ check: clean
//@ prove: unknown (calls `crashproof_tolerate_begin`, which is not defined here)
//@ robust: refuted at DATA
//@ variant tolerated-store: -DTOLERATED_STORE
//@ check: clean
//@ prove: unknown (calls `crashproof_tolerate_begin`, which is not defined here)
//@ robust: unknown (calls `crashproof_tolerate_begin`, which is not defined here)
//@ variant plain: -DPLAIN
//@ check: missing-flush at DATA, survived SUM, window DATA..SUM, primary
//@ prove: vacuous
//@ robust: refuted at DATA
//@ variant plain-2: -DPLAIN
//@ flags check: --suppress harmless.c:{DATA}
//@ check: clean
//@ prove: vacuous
//@ robust: refuted at DATA
//@ variant plain-3: -DPLAIN
//@ flags check: --suppress harmless.c:{PLAIN_READ}
//@ check: clean
//@ prove: vacuous
//@ robust: refuted at DATA

#include <crashproof.h>

PERSISTENT struct { long at; } __attribute__((aligned(64))) data, sum;

int main(void) {
  if (!crashproof_crashes()) {
#ifdef TOLERATED_STORE
    (void)crashproof_tolerate(data.at = 5);
#else
    data.at = 5; // MARK: DATA
#endif
    sum.at = 5 * 3; // MARK: SUM
    crashproof_persist(&data, 8); // MARK: PERSIST
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
  volatile long d = data.at; // MARK: PLAIN_READ
  (void)d, (void)s;
#endif
  return 0;
}
