void part(long *p);
char *test_pm(void);
int main(void) {
  long *p = (long *)test_pm();
  part(p);
  return *p - 1;
}
