#include "pair.h"

int main(void) { return run(1); }
