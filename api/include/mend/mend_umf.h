/*
 * A pool as a memory provider of UMF, the Unified Memory Framework of oneAPI. Needs UMF's headers,
 * 1.0 or later, and works in C and C++.
 *
 *     umfMemoryProviderCreate(mend_umf_ops(), pool, &provider);
 *
 * UMF has no streams, so its memory is allocated and freed with MEND_NO_STREAM: every stream may
 * use it at once, and reused after all earlier work of the context. UMF's pools divide it into
 * blocks by their own rules.
 */
#ifndef MEND_MEND_UMF_H
#define MEND_MEND_UMF_H

#include <umf/memory_provider_ops.h>

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#define MEND_UMF_POOL(provider) static_cast<mend_pool *>(provider)
#define MEND_UMF_PROVIDER(pool) const_cast<void *>(pool)
#define MEND_UMF_CODE(result)   static_cast<int32_t>(result)
#else
#define MEND_UMF_POOL(provider) ((mend_pool *)(provider))
#define MEND_UMF_PROVIDER(pool) ((void *)(uintptr_t)(pool))
#define MEND_UMF_CODE(result)   ((int32_t)(result))
#endif

/* umfMemoryProviderGetLastNativeError has the reason of a provider-specific failure. */
static inline umf_result_t mend_umf_result(mend_result result)
{
    switch (result) {
    case MEND_OK:
        return UMF_RESULT_SUCCESS;
    case MEND_ERROR_INVALID_ARGUMENT:
    case MEND_ERROR_FOREIGN_POINTER:
        return UMF_RESULT_ERROR_INVALID_ARGUMENT;
    case MEND_ERROR_OUT_OF_HOST_MEMORY:
        return UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    case MEND_ERROR_NOT_SUPPORTED:
        return UMF_RESULT_ERROR_NOT_SUPPORTED;
    default:
        return UMF_RESULT_ERROR_MEMORY_PROVIDER_SPECIFIC;
    }
}

static inline umf_result_t mend_umf_initialize(const void *pool, void **provider)
{
    if (!pool) {
        return UMF_RESULT_ERROR_INVALID_ARGUMENT;
    }
    *provider = MEND_UMF_PROVIDER(pool);
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t mend_umf_finalize(void *provider)
{
    (void)provider; /* its owner destroys the pool */
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t mend_umf_alloc(void *provider, size_t size_bytes, size_t alignment_bytes,
                                          void **memory)
{
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.alignment_bytes = alignment_bytes;
    return mend_umf_result(
        mend_alloc_with(MEND_UMF_POOL(provider), size_bytes, MEND_NO_STREAM, &options, memory));
}

static inline umf_result_t mend_umf_free(void *provider, void *memory, size_t size_bytes)
{
    (void)size_bytes;
    return mend_umf_result(mend_free(MEND_UMF_POOL(provider), memory, MEND_NO_STREAM));
}

/* A mend_result, with its message, of the thread's last failure, until its next one. */
static inline umf_result_t mend_umf_last_error(void *provider, const char **message, int32_t *code)
{
    mend_error failure = MEND_ERROR_INIT;
    (void)provider;
    if (!message || !code) {
        return UMF_RESULT_ERROR_INVALID_ARGUMENT;
    }
    mend_get_last_error(&failure);
    *message = failure.message;
    *code = MEND_UMF_CODE(failure.result);
    return UMF_RESULT_SUCCESS;
}

/* The usual size of a chunk: a UMF pool asks for this much at once. */
static inline umf_result_t mend_umf_page(void *provider, size_t size_bytes, size_t *page_bytes)
{
    (void)provider, (void)size_bytes;
    *page_bytes = 2u << 20;
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t mend_umf_least_page(void *provider, const void *memory,
                                               size_t *page_bytes)
{
    (void)provider, (void)memory;
    *page_bytes = 512; /* blocks are aligned to it */
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t mend_umf_name(void *provider, const char **name)
{
    (void)provider;
    *name = "MEND";
    return UMF_RESULT_SUCCESS;
}

#if UMF_PROVIDER_OPS_VERSION_CURRENT >= UMF_MAKE_VERSION(1, 2)
static inline umf_result_t mend_umf_line(void *provider, size_t *line_bytes)
{
    (void)provider;
    *line_bytes = 128; /* of CUDA's devices */
    return UMF_RESULT_SUCCESS;
}
#endif

/* The operations of a provider whose parameter is a pool. The pool outlives the provider and stays
 * yours. Interprocess handles, splits and merges return UMF_RESULT_ERROR_NOT_SUPPORTED. Any number
 * of threads. */
static inline const umf_memory_provider_ops_t *mend_umf_ops(void)
{
    static umf_memory_provider_ops_t ops;
    ops.version = UMF_PROVIDER_OPS_VERSION_CURRENT;
    ops.initialize = mend_umf_initialize;
    ops.finalize = mend_umf_finalize;
    ops.alloc = mend_umf_alloc;
    ops.free = mend_umf_free;
    ops.get_last_native_error = mend_umf_last_error;
    ops.get_recommended_page_size = mend_umf_page;
    ops.get_min_page_size = mend_umf_least_page;
    ops.get_name = mend_umf_name;
#if UMF_PROVIDER_OPS_VERSION_CURRENT >= UMF_MAKE_VERSION(1, 2)
    ops.get_cache_line_size = mend_umf_line;
#endif
    return &ops;
}

#undef MEND_UMF_POOL
#undef MEND_UMF_PROVIDER
#undef MEND_UMF_CODE
#ifdef __cplusplus
}
#endif

#endif
