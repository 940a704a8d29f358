/* What programs under test need: PM, persistent globals, and a check that ends the program. */
#ifndef TEST_H
#define TEST_H

#ifdef __cplusplus
extern "C" {
#endif

char *test_pm(void);
int test_modules(void);
void test_say(const char *);
void abort(void);
int printf(const char *, ...);

#ifdef __cplusplus
}
#endif

#define PERSISTENT __attribute__((section("crashproof_pm")))

/* A separate function, so that every optimization level sees a pointer it knows nothing about. */
#define PM(type, offset) ((type *)(test_pm() + (offset)))

#define CHECK(condition)                                                                                \
  do {                                                                                                  \
    if (!(condition)) {                                                                                 \
      printf("line %d: %s is false\n", __LINE__, #condition);                                           \
      abort();                                                                                          \
    }                                                                                                   \
  } while (0)

#endif
