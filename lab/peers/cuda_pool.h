/* The driver's own pool: its functions and constants, as those in driver/cuda_abi.h. */
#ifndef MEND_LAB_PEERS_CUDA_POOL_H
#define MEND_LAB_PEERS_CUDA_POOL_H

#include "driver/cuda_abi.h"

typedef struct CUmemPoolHandle_st *mend_cu_pool;
typedef int mend_cu_pool_attribute; /* CUmemPool_attribute */

#define MEND_CU_POOL_CONSTANTS(X)                                                                  \
    X(MEND_CU_POOL_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4)                        \
    X(MEND_CU_POOL_RESERVED, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5)                              \
    X(MEND_CU_POOL_RESERVED_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 6)
enum {
#define X(ours, theirs, value) ours = value,
    MEND_CU_POOL_CONSTANTS(X)
#undef X
};
#define MEND_CU_POOL_FUNCTIONS(X)                                                                  \
    X(cuDeviceGetDefaultMemPool, 11020, "", (mend_cu_pool * pool, mend_cu_device device))          \
    X(cuMemPoolTrimTo, 11020, "", (mend_cu_pool pool, size_t least_bytes))                         \
    X(cuMemPoolSetAttribute, 11020, "",                                                            \
      (mend_cu_pool pool, mend_cu_pool_attribute attribute, void *value))                          \
    X(cuMemPoolGetAttribute, 11020, "",                                                            \
      (mend_cu_pool pool, mend_cu_pool_attribute attribute, void *value))

#endif
