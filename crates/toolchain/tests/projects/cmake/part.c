void part(long *p) { *p = 1; }
