#include <assert.h>
#include <crashproof.h>

PERSISTENT _Alignas(64) long node;
PERSISTENT _Alignas(64) long *head;
PERSISTENT _Alignas(64) long ready;

void recover(void) {
  if (ready)
    assert(*head >= 0);
}

int main(void) {
  if (crashproof_crashes())
    recover();
  else {
    head = &node;
    crashproof_persist(&head, sizeof head);
    ready = 1;
  }
}
