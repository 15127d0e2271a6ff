/*
 * A small copy of the contract of PyTorch's pluggable allocator, written from its behaviour
 * (torch/csrc/cuda/CUDAPluggableAllocator): who calls, on which thread, with which stream, and what
 * PyTorch keeps. It also judges, which PyTorch does not.
 *
 *  - What is allocated is in a map from its pointer to size, device and stream, under one
 *    mutex. The callbacks are called outside of it, by whichever thread allocates or drops the last
 *    reference to a tensor.
 *  - A free is given the size, the device and the stream of the allocation, whatever stream is
 *    current.
 *  - NULL is not looked for: it becomes a tensor. An exception passes through to the caller.
 *  - record_stream does nothing where no function was set.
 *  - The same pointer twice goes unnoticed.
 *
 * Last seen true of PyTorch 2.8.
 */
#ifndef MEND_TESTS_HOOKS_TORCH_CONTRACT_H
#define MEND_TESTS_HOOKS_TORCH_CONTRACT_H

#include <stddef.h>

#include "mend/mend_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The callbacks by the types that PyTorch gives them. Only the first two must be there. */
typedef struct torch_functions {
    void *(*alloc)(size_t size, int device, struct CUstream_st *stream);
    void (*free)(void *pointer, size_t size, int device, struct CUstream_st *stream);
    void (*init)(int device_count);
    void (*reset)(void);
    void (*memory_fraction)(double fraction, int device);
    void *(*base_alloc)(void *pointer, size_t *size);
    void (*record_stream)(void *pointer, struct CUstream_st *stream);
    void (*begin_pool)(int device); /* which PyTorch gives further arguments */
} torch_functions;

typedef struct torch_contract torch_contract;

torch_contract *torch_contract_create(const torch_functions *functions);
void torch_contract_destroy(torch_contract *contract);

/* A tensor's memory. NULL: an exception came through, and its text is in `raised`; or it is an
 * empty tensor, or a finding. */
enum { TORCH_RAISED_BYTES = 512 };
void *torch_contract_malloc(torch_contract *contract, size_t size, int device, mend_stream stream,
                            char raised[TORCH_RAISED_BYTES]);

/* The last reference to a tensor goes. */
void torch_contract_delete(torch_contract *contract, void *pointer);

/* Tensor.record_stream, torch.cuda.empty_cache, and what CUDA's IPC asks for. */
void torch_contract_record_stream(torch_contract *contract, void *pointer, mend_stream stream);
void torch_contract_empty_cache(torch_contract *contract);
void torch_contract_begin_pool(torch_contract *contract, int device,
                               char raised[TORCH_RAISED_BYTES]);
void *torch_contract_base(torch_contract *contract, void *pointer, size_t *size);

/* Tensors there are. */
size_t torch_contract_count(torch_contract *contract);

/* The first breach of what PyTorch relies on, in words; "" where there was none. Lives as long as
 * the contract. */
const char *torch_contract_finding(torch_contract *contract);

#ifdef __cplusplus
}
#endif

#endif
