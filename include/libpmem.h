/*
 * libpmem.h: the interface of PMDK's libpmem (1.12 and later), provided by the crashproof runtime.
 *
 * Programs written for libpmem compile and link without PMDK. Under `crashproof check` every flush, drain
 * and copy is an event at the line that called it; whatever pmem_map_file maps is persistent memory,
 * wherever the file is. Elsewhere the functions do what libpmem does on memory that is not persistent:
 * msync.
 */

#ifndef LIBPMEM_H
#define LIBPMEM_H 1

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* flags of pmem_map_file */
#define PMEM_FILE_CREATE (1 << 0)
#define PMEM_FILE_EXCL (1 << 1)
#define PMEM_FILE_SPARSE (1 << 2)
#define PMEM_FILE_TMPFILE (1 << 3)

void *pmem_map_file(const char *path, size_t len, int flags, mode_t mode, size_t *mapped_lenp, int *is_pmemp);
int pmem_unmap(void *addr, size_t len);
int pmem_is_pmem(const void *addr, size_t len);

void pmem_persist(const void *addr, size_t len);
int pmem_msync(const void *addr, size_t len);
int pmem_has_auto_flush(void);
void pmem_flush(const void *addr, size_t len);
void pmem_deep_flush(const void *addr, size_t len);
int pmem_deep_drain(const void *addr, size_t len);
int pmem_deep_persist(const void *addr, size_t len);
void pmem_drain(void);
int pmem_has_hw_drain(void);

/* flags of the functions below */
#define PMEM_F_MEM_NODRAIN (1U << 0)
#define PMEM_F_MEM_NONTEMPORAL (1U << 1)
#define PMEM_F_MEM_TEMPORAL (1U << 2)
#define PMEM_F_MEM_WC (1U << 3)
#define PMEM_F_MEM_WB (1U << 4)
#define PMEM_F_MEM_NOFLUSH (1U << 5)
#define PMEM_F_MEM_VALID_FLAGS                                                                               \
  (PMEM_F_MEM_NODRAIN | PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_TEMPORAL | PMEM_F_MEM_WC | PMEM_F_MEM_WB |       \
   PMEM_F_MEM_NOFLUSH)

void *pmem_memmove(void *pmemdest, const void *src, size_t len, unsigned flags);
void *pmem_memcpy(void *pmemdest, const void *src, size_t len, unsigned flags);
void *pmem_memset(void *pmemdest, int c, size_t len, unsigned flags);
void *pmem_memmove_persist(void *pmemdest, const void *src, size_t len);
void *pmem_memcpy_persist(void *pmemdest, const void *src, size_t len);
void *pmem_memset_persist(void *pmemdest, int c, size_t len);
void *pmem_memmove_nodrain(void *pmemdest, const void *src, size_t len);
void *pmem_memcpy_nodrain(void *pmemdest, const void *src, size_t len);
void *pmem_memset_nodrain(void *pmemdest, int c, size_t len);

#define PMEM_MAJOR_VERSION 1
#define PMEM_MINOR_VERSION 1

/* null if the version is provided, else what is wrong */
const char *pmem_check_version(unsigned major_required, unsigned minor_required);
const char *pmem_errormsg(void);

/* Logging, since PMDK 2.1. The runtime logs nothing; what is set can be asked for. */
enum pmem_log_level {
  PMEM_LOG_LEVEL_HARK,
  PMEM_LOG_LEVEL_FATAL,
  PMEM_LOG_LEVEL_ERROR,
  PMEM_LOG_LEVEL_WARNING,
  PMEM_LOG_LEVEL_NOTICE,
  PMEM_LOG_LEVEL_INFO,
  PMEM_LOG_LEVEL_DEBUG,
};
enum pmem_log_threshold { PMEM_LOG_THRESHOLD, PMEM_LOG_THRESHOLD_AUX };
typedef void pmem_log_function(enum pmem_log_level level, const char *file_name, unsigned line_no,
                               const char *function_name, const char *message);
#define PMEM_LOG_USE_DEFAULT_FUNCTION (NULL)
int pmem_log_set_threshold(enum pmem_log_threshold threshold, enum pmem_log_level value);
int pmem_log_get_threshold(enum pmem_log_threshold threshold, enum pmem_log_level *value);
int pmem_log_set_function(pmem_log_function *log_function);

#ifdef __cplusplus
}
#endif

#endif
