// Does to persistent memory what its arguments say, and after a crash reads what those behind "--" say.
#include <crashproof.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static unsigned long next(const char **text) {
  char *end;
  unsigned long number = strtoul(*text, &end, 10);
  *text = *end ? end + 1 : end;
  return number;
}

__attribute__((target("clwb"))) static void write_back(void *line) { _mm_clwb(line); }

static void store(char *at, unsigned long bytes, unsigned long value) {
  switch (bytes) {
  case 1: *(volatile uint8_t *)at = value; break;
  case 2: *(volatile uint16_t *)at = value; break;
  case 4: *(volatile uint32_t *)at = value; break;
  case 8: *(volatile uint64_t *)at = value; break;
  }
}

static unsigned long load(const char *at, unsigned long bytes) {
  switch (bytes) {
  case 1: return *(volatile uint8_t *)at;
  case 2: return *(volatile uint16_t *)at;
  case 4: return *(volatile uint32_t *)at;
  default: return *(volatile uint64_t *)at;
  }
}

static void step(char *memory, const char *word) {
  const char *text = word + 1;
  unsigned long a = next(&text), b = next(&text), c = next(&text);
  char buffer[256];
  switch (word[0]) {
  case 's': store(memory + a, b, c); break;
  case 'f': memset(memory + a, c, b); break;
  case 'c':
    for (unsigned long i = 0; i < b; i++)
      buffer[i] = c + i;
    memcpy(memory + a, buffer, b);
    break;
  case 'x': __atomic_exchange_n((uint64_t *)(memory + a), c, __ATOMIC_SEQ_CST); break;
  case 'F': _mm_clflush(memory + 64 * a + 5); break;
  case 'W': write_back(memory + 64 * a + 9); break;
  case 'S': _mm_sfence(); break;
  case 'M': _mm_mfence(); break;
  default: abort();
  }
}

// Whether to go on.
static int look(char *memory, const char *word) {
  const char *text = word + 1;
  unsigned long a = next(&text), b = next(&text), c = next(&text);
  char buffer[256];
  switch (word[0]) {
  case 'l': load(memory + a, b); break;
  case 'c':
    memcpy(buffer, memory + a, b);
    __asm__ volatile("" : : "r"(buffer) : "memory");
    break;
  case 'i': return load(memory + a, 1) != c;
  case 's': store(memory + a, b, c); break;
  default: abort();
  }
  return 1;
}

int main(int count, char **words) {
  char *memory = crashproof_root(256);
  int split = 1;
  while (strcmp(words[split], "--"))
    split++;
  if (crashproof_crashes()) {
    for (int i = split + 1; i < count && look(memory, words[i]); i++)
      ;
    return 0;
  }
  for (int i = 1; i < split; i++)
    step(memory, words[i]);
  return 0;
}
