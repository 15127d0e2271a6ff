/*
 * PyTorch's hook: the functions for torch.cuda.memory.CUDAPluggableAllocator and its setters, in
 * libmend_torch. They forward to mend_device_alloc and the other calls for hooks.
 *
 * PyTorch calls them from any thread, without the interpreter's lock and without a lock of its own
 * (mend_torch_alloc_or_null under a MemPool: with the lock of PyTorch's cache held). A failure that
 * cannot be returned is logged as a warning and counted.
 */
#ifndef MEND_MEND_TORCH_H
#define MEND_MEND_TORCH_H

#include "mend/mend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- PyTorch: blocks ------------------------------------------------------------------------ */

/* alloc_fn. NULL only for size 0. A failure throws a C++ exception, because PyTorch does not check
 * for NULL. */
MEND_API void *mend_torch_alloc(size_t size, int device, mend_stream stream);

/* The same for a MemPool, which checks for NULL: NULL if memory cannot be allocated. */
MEND_API void *mend_torch_alloc_or_null(size_t size, int device, mend_stream stream);

/* free_fn of both. `stream` is that of the allocation, which PyTorch keeps. */
MEND_API void mend_torch_free(void *pointer, size_t size, int device, mend_stream stream);

/* set_record_stream_fn. Without it the memory of a tensor that is used on another stream than its
 * own would be reused too early. */
MEND_API void mend_torch_record_stream(void *pointer, mend_stream stream);

/* set_begin_allocate_to_pool; it ignores the further arguments. Refuses captures of CUDA graphs,
 * and PyTorch's own memory pools, with an exception, before anything has begun: their memory would
 * be reused between two launches of a graph. */
MEND_API void mend_torch_begin_pool(int device);

/* ---- PyTorch: memory in total --------------------------------------------------------------- */

/* set_init_fn. Does nothing, because a pool is created when its device is first used. */
MEND_API void mend_torch_init(int device_count);

/* set_reset_fn: torch.cuda.empty_cache. Waits for the GPU if free memory is still in use, as
 * PyTorch's own allocator does (mend_device_trim_wait). */
MEND_API void mend_torch_reset(void);

/* set_memory_fraction_fn: the limit of the device's default pool, as a fraction of its memory; 1
 * and more: no limit. A negative number or NaN changes nothing, and counts as a failure. */
MEND_API void mend_torch_memory_fraction(double fraction, int device);

/* set_base_alloc_fn: the block that contains a pointer, and its size. For a pointer of another
 * allocator it returns that pointer and leaves *size unchanged. */
MEND_API void *mend_torch_base_alloc(void *pointer, size_t *size);

/* ---- PyTorch: failures ---------------------------------------------------------------------- */

/*
 * Sets the function that raises the failures of mend_torch_alloc. NULL: a std::runtime_error, which
 * PyTorch turns into a RuntimeError. The text begins with "CUDA out of memory." if memory is short,
 * otherwise with "CUDA error."; it is valid during the call. If the function returns, the
 * std::runtime_error is thrown.
 */
MEND_API void mend_torch_set_raise(void (*raise)(const char *message));

/* Number of failures that could not be returned or raised. */
MEND_API uint64_t mend_torch_failures(void);

#ifdef __cplusplus
}
#endif

#endif
