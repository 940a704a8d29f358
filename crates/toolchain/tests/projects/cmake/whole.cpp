#include "whole.hpp"
long whole(long *p) {
  std::vector<long> v(3, *p);
  p[1] = v[2] + 1;
  return p[1];
}
