/*
 * A small copy of how PyTorch's tensors use Mend's class: the caller, the thread, the stream, and
 * the state of the class, which is none. It also judges, which PyTorch does not.
 *
 *  - A tensor has a pointer and no more. A free finds its data from the pointer.
 *  - A free is in the order of the stream of the allocation, whatever stream is current.
 *  - NULL is not looked for: it becomes a tensor. A failure becomes an exception with a text.
 */
#ifndef MEND_TESTS_HOOKS_TORCH_CONTRACT_H
#define MEND_TESTS_HOOKS_TORCH_CONTRACT_H

#include <stddef.h>

#include "mend/mend_devices.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_torch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The functions that the class calls. record_stream and empty_cache may be NULL. */
typedef struct torch_functions {
    __typeof__(&(mend_torch_block_alloc)) alloc;
    __typeof__(&(mend_torch_block_find)) find;
    __typeof__(&(mend_torch_block_free)) free;
    __typeof__(&(mend_torch_write_out_of_memory)) write;
    __typeof__(&(mend_device_record_stream)) record_stream;
    __typeof__(&(mend_torch_empty_cache)) empty_cache;
} torch_functions;

/* Mend's own. `functions` are the looked up ones of a rig. */
#define torch_functions_of(functions)                                                              \
    ((torch_functions){.alloc = (functions)->mend_torch_block_alloc,                               \
                       .find = (functions)->mend_torch_block_find,                                 \
                       .free = (functions)->mend_torch_block_free,                                 \
                       .write = (functions)->mend_torch_write_out_of_memory,                       \
                       .record_stream = (functions)->mend_device_record_stream,                    \
                       .empty_cache = (functions)->mend_torch_empty_cache})

typedef struct torch_contract torch_contract;

torch_contract *torch_contract_create(const torch_functions *functions);
void torch_contract_destroy(torch_contract *contract);

/* A tensor's memory. NULL: it would be an exception, and its text is in `raised`, or it is an empty
 * tensor, or a finding. */
enum { TORCH_RAISED_BYTES = 1024 };
void *torch_contract_malloc(torch_contract *contract, size_t size, int device, mend_stream stream,
                            char raised[TORCH_RAISED_BYTES]);

/* The last reference to a tensor goes. */
void torch_contract_delete(torch_contract *contract, void *pointer);

/* Tensor.record_stream, torch.cuda.empty_cache, and the base of a pointer. */
void torch_contract_record_stream(torch_contract *contract, void *pointer, mend_stream stream);
void torch_contract_empty_cache(torch_contract *contract);
void *torch_contract_base(torch_contract *contract, void *pointer, size_t *size);

/* Tensors there are. */
size_t torch_contract_count(torch_contract *contract);

/* The first breach of PyTorch's assumptions, in words. "" where there was none. Lives as long as
 * the contract. */
const char *torch_contract_finding(torch_contract *contract);

#ifdef __cplusplus
}
#endif

#endif
