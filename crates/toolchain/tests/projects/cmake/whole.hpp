#pragma once
#include <vector>
long whole(long *p);
