// As phlog-unflushed.bad.c, past the cache and waited for.
//@ check: skip (a fragment: it has no main)
//@ lint: clean, no warnings
//@ prove: skip (a fragment: it has no main)
#include "mnemosyne.h"

struct log {
  pcm_word_t head;
  char pad[56];
  pcm_word_t tail;
};

void truncate_log(pcm_storeset_t *set, struct log *log, pcm_word_t index) {
  PCM_NT_STORE(set, &log->tail, index);
  PCM_NT_STORE(set, &log->head, index);
  PCM_NT_FLUSH(set);
}
