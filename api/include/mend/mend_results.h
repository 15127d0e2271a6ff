/* What calls answer, and what mend_last_error tells of a failure. Included by mend.h, whose
 * conventions hold here too. */
#ifndef MEND_MEND_RESULTS_H
#define MEND_MEND_RESULTS_H

#include <stddef.h>
#include <stdint.h>

#include "mend/mend_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- results --------------------------------------------------------------------------------- */

/* X(name, value, meaning): every mend_result. Values never change. */
#define MEND_RESULTS(X)                                                                            \
    X(MEND_OK, 0, "success")                                                                       \
    X(MEND_ERROR_INVALID_ARGUMENT, 1, "an argument is outside what the call accepts")              \
    X(MEND_ERROR_OUT_OF_MEMORY, 2, "the device, or the pool's limit, has no room for the request") \
    X(MEND_ERROR_OUT_OF_HOST_MEMORY, 3, "malloc failed on the host")                               \
    X(MEND_ERROR_OUT_OF_ADDRESSES, 4, "the driver has no range of addresses left")                 \
    X(MEND_ERROR_NO_DRIVER, 5, "libcuda.so.1 is missing or too old")                               \
    X(MEND_ERROR_NO_DEVICE, 6, "there is no such device")                                          \
    X(MEND_ERROR_NOT_SUPPORTED, 7, "the device or the driver cannot do this")                      \
    X(MEND_ERROR_DRIVER, 8, "a driver call failed; see mend_last_error")                           \
    X(MEND_ERROR_DEVICE_LOST, 9, "the context is broken; only destroy is useful now")              \
    X(MEND_ERROR_FOREIGN_POINTER, 10, "the pointer is not one of this pool")                       \
    X(MEND_ERROR_INTERIOR_POINTER, 11, "the pointer lies inside a live block, not at its start")   \
    X(MEND_ERROR_DOUBLE_FREE, 12, "the pointer lies in memory that is free already")               \
    X(MEND_ERROR_UNKNOWN_STREAM, 13, "the stream is not usable with this pool")                    \
    X(MEND_ERROR_CAPTURING, 14, "a stream is being captured, which forbids the call")              \
    X(MEND_ERROR_FORKED, 15, "the pool was inherited through fork; make one in this process")      \
    X(MEND_ERROR_INVARIANT, 16, "the pool contradicts itself: an error of Mend")

/* What a fallible call answers. */
typedef enum mend_result {
#define X(name, value, meaning) name = value,
    MEND_RESULTS(X)
#undef X
} mend_result;

/* The name of a result ("MEND_ERROR_OUT_OF_MEMORY"); static, never NULL. No lock, no driver call.
 */
MEND_API const char *mend_result_name(mend_result result);

/* Where the memory is when a request found none, in exact bytes: what the message of
 * MEND_ERROR_OUT_OF_MEMORY tells in words. */
typedef struct mend_shortfall {
    size_t struct_size;             /* of the library that filled it */
    uint64_t requested_bytes;       /* asked for */
    uint64_t fitting_bytes;         /* a request of this size would have been served */
    uint64_t limit_bytes;           /* most physical memory the pool may hold */
    uint64_t sufficient_limit;      /* the lowest limit that would do; 0: none would */
    uint64_t reserved_bytes;        /* physical memory the pool holds */
    uint64_t live_bytes;            /* in blocks */
    uint64_t free_empty_bytes;      /* in chunks empty */
    uint64_t free_partial_bytes;    /* beside live blocks */
    uint64_t waiting_stream_bytes;  /* of the free, what work of streams may still use */
    uint64_t waiting_context_bytes; /* of the free, what was freed without a stream */
    uint64_t group_bytes;           /* of the free, what is held for graphs */
    uint64_t emptiest_bytes;        /* free in the emptiest chunk in use */
    uint64_t holder_address;        /* a block that holds it; 0: there is none */
    uint64_t holder_bytes;          /* its size */
    uint64_t device_bytes;          /* memory of the device */
    uint64_t device_free_bytes;     /* of it, free */
    uint64_t device_others_bytes;   /* of it, neither free nor of this pool */
} mend_shortfall;

/* What went wrong in this thread's last failed call. */
typedef struct mend_error {
    size_t struct_size;
    mend_result result;              /* what the call answered; MEND_OK before any failure */
    int driver_status;               /* the driver's code, 0 when no driver call failed */
    const char *driver_name;         /* its name; "" when none */
    const char *driver_call;         /* the call that failed ("cuMemMap"); "" when none */
    const char *message;             /* what was tried and what would help; "" before any failure */
    const mend_shortfall *shortfall; /* of MEND_ERROR_OUT_OF_MEMORY; NULL of all others, and where
                                        another allocator was short of memory */
} mend_error;
#define MEND_ERROR_INIT                                                                            \
    {                                                                                              \
        sizeof(mend_error), MEND_OK, 0, "", "", "", NULL                                           \
    }

/* Fills *error with the calling thread's last failure; a call that succeeds leaves it. The strings
 * and the shortfall live until the thread's next failing call. No lock, no driver call. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (error NULL, or its struct_size wrong; the last failure stays). */
MEND_API mend_result mend_last_error(mend_error *error);

/* MEND_VERSION_MAJOR * 10000 + MINOR * 100 + PATCH of the library that runs. No lock, no driver
 * call. */
MEND_API int mend_version(void);

#ifdef __cplusplus
}
#endif

#endif
