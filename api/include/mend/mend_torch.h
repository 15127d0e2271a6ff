/*
 * PyTorch's hook: the functions that torch.cuda.memory.CUDAPluggableAllocator and its setters take,
 * in libmend_torch. They forward to mend_device_alloc and its sisters.
 *
 * PyTorch calls them from any thread, without the interpreter's lock and without a lock of its own
 * (mend_torch_alloc_or_null beneath a MemPool: under the lock of PyTorch's cache). What fails where
 * nothing can be returned is logged as a warning and counted.
 */
#ifndef MEND_MEND_TORCH_H
#define MEND_MEND_TORCH_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- blocks ---------------------------------------------------------------------------------- */

/* alloc_fn. NULL for size 0 alone: what cannot be had is raised as a C++ exception, for PyTorch
 * does not look whether it was given NULL. */
MEND_API void *mend_torch_alloc(size_t size, int device, mend_stream stream);

/* The same for a MemPool, which does look: NULL where memory cannot be had. */
MEND_API void *mend_torch_alloc_or_null(size_t size, int device, mend_stream stream);

/* free_fn of both. `stream` is that of the allocation, as PyTorch remembers it. */
MEND_API void mend_torch_free(void *pointer, size_t size, int device, mend_stream stream);

/* set_record_stream_fn. Without it a tensor that is used on another stream than its own would be
 * handed on too early. */
MEND_API void mend_torch_record_stream(void *pointer, mend_stream stream);

/* set_begin_allocate_to_pool, whose further arguments it leaves alone: captures of CUDA graphs and
 * PyTorch's own memory pools are refused, by an exception, before anything has begun. Their memory
 * would be handed to others between two replays. */
MEND_API void mend_torch_begin_pool(int device);

/* ---- room ------------------------------------------------------------------------------------ */

/* set_init_fn. Pools are made when a device is first used, so this has nothing to do. */
MEND_API void mend_torch_init(int device_count);

/* set_reset_fn: torch.cuda.empty_cache. Waits for the GPU where what is free is still in use, as
 * PyTorch's own allocator does (mend_device_trim_wait). */
MEND_API void mend_torch_reset(void);

/* set_memory_fraction_fn: the limit of the device's default pool, as a part of its memory; 1 and
 * more: no limit. What is negative or no number changes nothing, and is counted as a failure. */
MEND_API void mend_torch_memory_fraction(double fraction, int device);

/* set_base_alloc_fn: the block around a pointer, and its size. Of a pointer that is none of ours:
 * itself, and *size is left alone. */
MEND_API void *mend_torch_base_alloc(void *pointer, size_t *size);

/* ---- failures -------------------------------------------------------------------------------- */

/*
 * Who raises what mend_torch_alloc has to say; NULL: a std::runtime_error, which PyTorch turns into
 * a RuntimeError. The text begins with "CUDA out of memory." where memory is what lacks, else with
 * "CUDA error."; it lives for the call. A function that returns is followed by the
 * std::runtime_error.
 */
MEND_API void mend_torch_set_raise(void (*raise)(const char *message));

/* How often something failed that could not be returned or raised. */
MEND_API uint64_t mend_torch_failures(void);

#ifdef __cplusplus
}
#endif

#endif
