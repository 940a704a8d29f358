/* What the tests need of PMFS: declarations only. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct super_block;
typedef struct pmfs_transaction pmfs_transaction_t;
void pmfs_flush_buffer(void *buf, uint32_t len, bool fence);
void PERSISTENT_BARRIER(void);
pmfs_transaction_t *pmfs_new_transaction(struct super_block *sb, int entries);
int pmfs_add_logentry(struct super_block *sb, pmfs_transaction_t *trans, void *addr, uint16_t size, uint8_t type);
int pmfs_commit_transaction(struct super_block *sb, pmfs_transaction_t *trans);
void *pmfs_get_block(struct super_block *sb, uint64_t block);
void *pmfs_get_inode(struct super_block *sb, uint64_t ino);
void *pmfs_get_super(struct super_block *sb);
