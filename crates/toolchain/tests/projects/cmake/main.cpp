#include "whole.hpp"
extern "C" void part(long *p);
extern "C" char *test_pm(void);
int main() {
  long *p = reinterpret_cast<long *>(test_pm());
  part(p);
  return whole(p) == 2 ? 0 : 1;
}
