/* cuBLAS: handles with a stream, and multiplications that take time on it and compute nothing. What
 * it allocates for itself on a GPU is not modelled; PyTorch brings cuBLAS's workspaces. */
#include <stdlib.h>
#include <string.h>

#include "simulate/entry.h"
#include "simulate/launch.h"

/* cublasStatus_t */
enum { BLAS_SUCCESS = 0, BLAS_NOT_INITIALIZED = 1, BLAS_ALLOC_FAILED = 3, BLAS_FAILED = 13 };

typedef struct blas_handle {
    mend_stream stream;
    int math_mode;
    int pointer_mode;
} blas_handle;

/* ---- handles --------------------------------------------------------------------------------- */

SIMULATE_EXPORT int cublasCreate_v2(blas_handle **handle)
{
    *handle = calloc(1, sizeof(**handle));
    return *handle != NULL ? BLAS_SUCCESS : BLAS_ALLOC_FAILED;
}

SIMULATE_EXPORT int cublasDestroy_v2(blas_handle *handle)
{
    free(handle);
    return BLAS_SUCCESS;
}

/* X(what is set, type, member, what it is got by) */
#define MEMBERS(X)                                                                                 \
    X(cublasSetStream_v2, mend_stream, stream, cublasGetStream_v2)                                 \
    X(cublasSetMathMode, int, math_mode, cublasGetMathMode)                                        \
    X(cublasSetPointerMode_v2, int, pointer_mode, cublasGetPointerMode_v2)

#define X(set, type, member, get)                                                                  \
    SIMULATE_EXPORT int set(blas_handle *handle, type value)                                       \
    {                                                                                              \
        if (handle == NULL) {                                                                      \
            return BLAS_NOT_INITIALIZED;                                                           \
        }                                                                                          \
        handle->member = value;                                                                    \
        return BLAS_SUCCESS;                                                                       \
    }                                                                                              \
    SIMULATE_EXPORT int get(const blas_handle *handle, type *value)                                \
    {                                                                                              \
        if (handle == NULL) {                                                                      \
            return BLAS_NOT_INITIALIZED;                                                           \
        }                                                                                          \
        *value = handle->member;                                                                   \
        return BLAS_SUCCESS;                                                                       \
    }
MEMBERS(X)
#undef X

/* ---- multiplications ------------------------------------------------------------------------- */

/* X(function): its first argument is the handle; the others do not matter. */
#define ON_HANDLE(X)                                                                               \
    X(cublasSgemm_v2)                                                                              \
    X(cublasDgemm_v2)                                                                              \
    X(cublasCgemm_v2)                                                                              \
    X(cublasZgemm_v2)                                                                              \
    X(cublasHgemm)                                                                                 \
    X(cublasSgemmEx)                                                                               \
    X(cublasGemmEx)                                                                                \
    X(cublasSgemmStridedBatched)                                                                   \
    X(cublasDgemmStridedBatched)                                                                   \
    X(cublasCgemmStridedBatched)                                                                   \
    X(cublasZgemmStridedBatched)                                                                   \
    X(cublasGemmStridedBatchedEx)                                                                  \
    X(cublasSgemv_v2)                                                                              \
    X(cublasDgemv_v2)                                                                              \
    X(cublasCgemv_v2)                                                                              \
    X(cublasZgemv_v2)                                                                              \
    X(cublasSdot_v2)                                                                               \
    X(cublasDdot_v2)                                                                               \
    X(cublasDotEx)                                                                                 \
    X(cublasCdotu_v2)                                                                              \
    X(cublasCdotc_v2)                                                                              \
    X(cublasZdotu_v2)                                                                              \
    X(cublasZdotc_v2)                                                                              \
    X(cublasStrsm_v2)                                                                              \
    X(cublasDtrsm_v2)

#define X(function)                                                                                \
    SIMULATE_EXPORT int function(const blas_handle *handle)                                        \
    {                                                                                              \
        if (handle == NULL) {                                                                      \
            return BLAS_NOT_INITIALIZED;                                                           \
        }                                                                                          \
        return simulate_launch(handle->stream) == CUDA_SUCCESS ? BLAS_SUCCESS : BLAS_FAILED;       \
    }
ON_HANDLE(X)
#undef X

/* X(function): does nothing. */
#define WITHOUT_EFFECT(X)                                                                          \
    X(cublasSetWorkspace_v2)                                                                       \
    X(cublasSetAtomicsMode)                                                                        \
    X(cublasSetEmulationStrategy)                                                                  \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutSetAttribute)                                                            \
    X(cublasLtMatmulPreferenceSetAttribute)

#define X(function)                                                                                \
    SIMULATE_EXPORT int function(void)                                                             \
    {                                                                                              \
        return BLAS_SUCCESS;                                                                       \
    }
WITHOUT_EFFECT(X)
#undef X

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

/* Descriptions are opaque; none is ever read. */
static int make_description(void **description)
{
    *description = malloc(1);
    return *description != NULL ? BLAS_SUCCESS : BLAS_ALLOC_FAILED;
}

/* X(made by, destroyed by) */
#define DESCRIPTIONS(X)                                                                            \
    X(cublasLtCreate, cublasLtDestroy)                                                             \
    X(cublasLtMatmulDescCreate, cublasLtMatmulDescDestroy)                                         \
    X(cublasLtMatrixLayoutCreate, cublasLtMatrixLayoutDestroy)                                     \
    X(cublasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceDestroy)

#define X(create, destroy)                                                                         \
    SIMULATE_EXPORT int create(void **description)                                                 \
    {                                                                                              \
        return make_description(description);                                                      \
    }                                                                                              \
    SIMULATE_EXPORT int destroy(void *description)                                                 \
    {                                                                                              \
        free(description);                                                                         \
        return BLAS_SUCCESS;                                                                       \
    }
DESCRIPTIONS(X)
#undef X

enum { HEURISTIC_BYTES = 96 }; /* of cublasLtMatmulHeuristicResult_t; state 0 is success */

SIMULATE_EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b,
                                                   void *c, void *d, void *preference, int wanted,
                                                   void *results, int *count)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    *count = wanted > 0 ? 1 : 0;
    if (wanted > 0) {
        memset(results, 0, HEURISTIC_BYTES);
    }
    return BLAS_SUCCESS;
}

SIMULATE_EXPORT int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a,
                                   void *a_layout, const void *b, void *b_layout, const void *beta,
                                   const void *c, void *c_layout, void *d, void *d_layout,
                                   const void *algorithm, void *workspace, size_t workspace_bytes,
                                   mend_stream stream)
{
    (void)handle, (void)operation, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout;
    (void)beta, (void)c, (void)c_layout, (void)d, (void)d_layout, (void)algorithm;
    (void)workspace, (void)workspace_bytes;
    return simulate_launch(stream) == CUDA_SUCCESS ? BLAS_SUCCESS : BLAS_FAILED;
}
