/* cuBLAS: handles with a stream, and multiplications that take time on it and compute nothing. Its
 * own allocations on a GPU are not modeled. PyTorch brings cuBLAS's workspaces. */
#include <stdlib.h>
#include <string.h>

#include "simulate/entry.h"
#include "simulate/launch.h"

/* cublasStatus_t */
enum {
    BLAS_SUCCESS = 0,
    BLAS_NOT_INITIALIZED = 1,
    BLAS_ALLOC_FAILED = 3,
    BLAS_FAILED = 13,
    BLAS_NOT_SUPPORTED = 15
};

enum { BLAS_VERSION = 120804 }; /* 12.8.4 */

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

/* ---- computations ---------------------------------------------------------------------------- */

/* X(function): its first argument is the handle. The others do not matter. All that programs import
 * (tests/simulate/imports.txt). */
#define OF_REAL(X, name)    X(cublasS##name) X(cublasD##name)
#define OF_COMPLEX(X, name) X(cublasC##name) X(cublasZ##name)
#define OF_ALL(X, name)     OF_REAL(X, name) OF_COMPLEX(X, name)
/* clang-format off */
#define ON_HANDLE(X) \
    OF_ALL(X, axpy_v2) OF_ALL(X, copy_v2) OF_ALL(X, dgmm) OF_ALL(X, geam) OF_ALL(X, gelsBatched) \
    OF_ALL(X, gemmBatched) OF_ALL(X, gemmStridedBatched) OF_ALL(X, gemm_v2) OF_ALL(X, gemv_v2) \
    OF_ALL(X, geqrfBatched) OF_ALL(X, getrfBatched) OF_ALL(X, getriBatched) \
    OF_ALL(X, getrsBatched) OF_ALL(X, rot_v2) OF_ALL(X, rotg_v2) OF_ALL(X, scal_v2) \
    OF_ALL(X, swap_v2) OF_ALL(X, symm_v2) OF_ALL(X, symv_v2) OF_ALL(X, syr2_v2) \
    OF_ALL(X, syr2k_v2) OF_ALL(X, syr_v2) OF_ALL(X, syrk_v2) OF_ALL(X, trmm_v2) \
    OF_ALL(X, trmv_v2) OF_ALL(X, trsmBatched) OF_ALL(X, trsm_v2) OF_ALL(X, trsv_v2) \
    OF_REAL(X, asum_v2) OF_REAL(X, dot_v2) OF_REAL(X, ger_v2) OF_REAL(X, nrm2_v2) \
    OF_REAL(X, rotm_v2) OF_REAL(X, rotmg_v2) OF_REAL(X, sbmv_v2) OF_REAL(X, tpttr) \
    OF_REAL(X, trttp) OF_COMPLEX(X, dotc_v2) OF_COMPLEX(X, dotu_v2) OF_COMPLEX(X, gerc_v2) \
    OF_COMPLEX(X, geru_v2) OF_COMPLEX(X, hemm_v2) OF_COMPLEX(X, hemv_v2) OF_COMPLEX(X, her2_v2) \
    OF_COMPLEX(X, her2k_v2) OF_COMPLEX(X, her_v2) OF_COMPLEX(X, herk_v2) X(cublasCsrot_v2) \
    X(cublasCsscal_v2) X(cublasDotEx) X(cublasDzasum_v2) X(cublasDznrm2_v2) X(cublasGemmEx) \
    X(cublasGemmStridedBatchedEx) X(cublasHgemm) X(cublasIcamax_v2) X(cublasIcamin_v2) \
    X(cublasIdamax_v2) X(cublasIdamin_v2) X(cublasIsamax_v2) X(cublasIsamin_v2) \
    X(cublasIzamax_v2) X(cublasIzamin_v2) X(cublasScasum_v2) X(cublasScnrm2_v2) X(cublasSgemmEx) \
    X(cublasZdrot_v2) X(cublasZdscal_v2)
/* clang-format on */

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
    X(cublasSetSmCountTarget)                                                                      \
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

/* X(function): refused. The first four copy without a handle. */
#define REFUSED(X)                                                                                 \
    X(cublasSetVectorAsync)                                                                        \
    X(cublasGetVectorAsync)                                                                        \
    X(cublasSetMatrixAsync)                                                                        \
    X(cublasGetMatrixAsync)                                                                        \
    X(cublasLtMatmulAlgoInit)                                                                      \
    X(cublasLtMatmulAlgoCheck)                                                                     \
    X(cublasLtMatmulAlgoConfigGetAttribute)                                                        \
    X(cublasLtMatmulAlgoConfigSetAttribute)

#define X(function)                                                                                \
    SIMULATE_EXPORT int function(void)                                                             \
    {                                                                                              \
        return BLAS_NOT_SUPPORTED;                                                                 \
    }
REFUSED(X)
#undef X

SIMULATE_EXPORT int cublasGetVersion_v2(const blas_handle *handle, int *version)
{
    *version = BLAS_VERSION;
    return handle != NULL ? BLAS_SUCCESS : BLAS_NOT_INITIALIZED;
}

SIMULATE_EXPORT size_t cublasLtGetVersion(void)
{
    return BLAS_VERSION;
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

/* Descriptions are opaque. None is ever read. */
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

enum { HEURISTIC_BYTES = 96 }; /* of cublasLtMatmulHeuristicResult_t. State 0 is success */

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
