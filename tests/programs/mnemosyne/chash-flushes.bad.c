// Table 8, CHash.c:150: an object is flushed several times.
//@ check: skip (a fragment: it has no main)
//@ lint: redundant-flush at redundant-flush
//@ prove: skip (a fragment: it has no main)
#include "mnemosyne.h"

struct bucket {
  pcm_word_t key;
  pcm_word_t value;
};

void put(pcm_storeset_t *set, struct bucket *bucket, pcm_word_t key, pcm_word_t value) {
  PCM_WB_STORE(set, &bucket->key, key);
  PCM_WB_STORE(set, &bucket->value, value);
  PCM_WB_FLUSH(set, &bucket->key);
  PCM_WB_FLUSH(set, &bucket->value);
  PCM_WB_FLUSH(set, &bucket->key); // MARK: redundant-flush
  PCM_WB_FENCE(set);
}
