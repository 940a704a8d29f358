/* What the tests need of Mnemosyne and of the transactional memory interface of compilers. */
#include <stddef.h>
#include <stdint.h>

typedef struct pcm_storeset pcm_storeset_t;
typedef uint64_t pcm_word_t;
void PCM_NT_STORE(pcm_storeset_t *set, volatile pcm_word_t *addr, pcm_word_t value);
void PCM_NT_FLUSH(pcm_storeset_t *set);
void PCM_WB_STORE(pcm_storeset_t *set, volatile pcm_word_t *addr, pcm_word_t value);
void PCM_WB_FLUSH(pcm_storeset_t *set, volatile pcm_word_t *addr);
void PCM_WB_FENCE(pcm_storeset_t *set);
uint32_t _ITM_beginTransaction(uint32_t properties, ...);
void _ITM_commitTransaction(void);
void _ITM_WU8(uint64_t *addr, uint64_t value);
void _ITM_WU4(uint32_t *addr, uint32_t value);
void *pmalloc(size_t size);
#define MNEMOSYNE_PERSISTENT __attribute__((section("PERSISTENT")))
