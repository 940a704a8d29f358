// Table 8, phlog_base.c:132: a field of the persistent log is stored to without a flush.
//@ check: skip (a fragment: it has no main)
//@ lint: unflushed-write at unflushed-write
//@ prove: skip (a fragment: it has no main)
#include "mnemosyne.h"

struct log {
  pcm_word_t head;
  char pad[56];
  pcm_word_t tail;
};

void truncate_log(pcm_storeset_t *set, struct log *log, pcm_word_t index) {
  log->tail = index; // MARK: unflushed-write
  PCM_NT_STORE(set, &log->head, index);
  PCM_NT_FLUSH(set);
}
