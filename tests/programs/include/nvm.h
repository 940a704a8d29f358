/* What the tests need of NVM-Direct: declarations only. */
#include <stddef.h>
#include <stdint.h>

typedef uint32_t nvm_desc;
void nvm_flush(const void *ptr, size_t bytes);
void nvm_flush1(const void *ptr);
void nvm_persist(void);
void nvm_persist1(const void *ptr);
void nvm_txbegin(nvm_desc desc);
void nvm_txend(void);
void nvm_undo(const void *data, size_t bytes);
#define NVM_UNDO(lvalue) nvm_undo(&(lvalue), sizeof(lvalue))
