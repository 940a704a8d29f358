#include <crashproof.h>
#include <string.h>
static void persist(void *p, size_t n) { crashproof_persist(p, n); }
struct hdr { char magic[8]; long version; char pad[48]; long ready; };
static void format(struct hdr *h) {
  memcpy(h->magic, "STORE01", 8); h->version = 3;
  if (h->version > 2) h->pad[0] = 1;
  h->ready = 1; persist(&h->ready, sizeof h->ready);
}
int main(void) {
  struct hdr *h = crashproof_root(sizeof *h);
  if (crashproof_crashes()) { crashproof_assert(!h->ready || h->version == 3); return 0; }
  format(h);
  return 0;
}
