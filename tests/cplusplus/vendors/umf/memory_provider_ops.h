/* UMF's operations of a provider that are not optional, as of 1.2, for machines without it. */
#ifndef MEND_TESTS_UMF_MEMORY_PROVIDER_OPS
#define MEND_TESTS_UMF_MEMORY_PROVIDER_OPS

#include <stddef.h>
#include <stdint.h>

#define UMF_MAKE_VERSION(major, minor)   ((major) << 16 | (minor))
#define UMF_PROVIDER_OPS_VERSION_CURRENT UMF_MAKE_VERSION(1, 2)

typedef enum umf_result_t {
    UMF_RESULT_SUCCESS = 0,
    UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY = 1,
    UMF_RESULT_ERROR_MEMORY_PROVIDER_SPECIFIC = 2,
    UMF_RESULT_ERROR_INVALID_ARGUMENT = 3,
    UMF_RESULT_ERROR_NOT_SUPPORTED = 5
} umf_result_t;

typedef struct umf_memory_provider_ops_t {
    uint32_t version;
    umf_result_t (*initialize)(const void *params, void **provider);
    umf_result_t (*finalize)(void *provider);
    umf_result_t (*alloc)(void *provider, size_t size, size_t alignment, void **memory);
    umf_result_t (*free)(void *provider, void *memory, size_t size);
    umf_result_t (*get_last_native_error)(void *provider, const char **message, int32_t *code);
    umf_result_t (*get_recommended_page_size)(void *provider, size_t size, size_t *page);
    umf_result_t (*get_min_page_size)(void *provider, const void *memory, size_t *page);
    umf_result_t (*get_name)(void *provider, const char **name);
    umf_result_t (*get_cache_line_size)(void *provider, size_t *size);
} umf_memory_provider_ops_t;

#endif
