#include "pm.h"
struct address { char host[120]; int port; };
struct settings { char pad[40]; struct address address; };

static void set(struct settings *s, const char *host, int port) {
  struct address new = {.port = port};
  strcpy(new.host, host);
  memcpy(&s->address, &new, sizeof new);
  crashproof_persist(&s->address, sizeof s->address);
}

int main(void) {
  struct settings *s = crashproof_root(sizeof *s);
  if (s->address.port == 80)
    return strcmp(s->address.host, "alpha") == 0 ? 0 : 1;
  set(s, "alpha", 80);
  return 0;
}
