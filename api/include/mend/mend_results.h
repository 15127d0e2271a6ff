/* The results of calls, and the report of mend_get_last_error about a failure. Included by mend.h,
 * whose conventions hold here too. */
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
    X(MEND_ERROR_OUT_OF_ADDRESS_SPACE, 4, "the driver has no range of addresses left")             \
    X(MEND_ERROR_NO_DRIVER, 5, "libcuda.so.1 is missing or too old")                               \
    X(MEND_ERROR_NO_DEVICE, 6, "there is no such device")                                          \
    X(MEND_ERROR_NOT_SUPPORTED, 7, "the device or the driver cannot do this")                      \
    X(MEND_ERROR_DRIVER, 8, "a driver call failed; see mend_get_last_error")                       \
    X(MEND_ERROR_DEVICE_LOST, 9, "the context is broken; only destroy is useful now")              \
    X(MEND_ERROR_FOREIGN_POINTER, 10, "the pointer is not memory of this pool")                    \
    X(MEND_ERROR_INTERIOR_POINTER, 11, "the pointer lies inside a live block, not at its start")   \
    X(MEND_ERROR_DOUBLE_FREE, 12, "the pointer lies in memory that was already freed")             \
    X(MEND_ERROR_UNKNOWN_STREAM, 13, "the stream is not usable with this pool")                    \
    X(MEND_ERROR_CAPTURING, 14, "a stream is being captured, which forbids the call")              \
    X(MEND_ERROR_FORKED, 15, "the pool was inherited through fork; create one in this process")    \
    X(MEND_ERROR_INTERNAL, 16, "an invariant of the pool is broken: a bug in Mend")                \
    X(MEND_ERROR_EXPORTER_GONE, 17, "the process that exported the memory does not give it")       \
    X(MEND_ERROR_SYSTEM, 18, "the operating system refused a socket, a thread or a file")          \
    X(MEND_ERROR_ASLEEP, 19, "the memory sleeps: wake it first")                                   \
    X(MEND_ERROR_PINNED, 20, "the memory is pinned or shared, so it has to stay")                  \
    X(MEND_ERROR_CORRUPTION, 21, "memory was written behind a block's end, or after its free")

/* The result of a call that can fail. */
typedef enum mend_result {
#define X(name, value, meaning) name = value,
    MEND_RESULTS(X)
#undef X
} mend_result;

/* The name of a result ("MEND_ERROR_OUT_OF_MEMORY"); static, never NULL. No lock, no driver
 * call. */
MEND_API const char *mend_result_name(mend_result result);

/* An owner of memory: the live blocks and committed pages of one scope, tag and stack, or of one
 * stream (mend_get_owners); of those that have none of these, the blocks of one size. Bytes as
 * live_bytes of mend_stats. Fields may be added at the end. */
enum { MEND_OWNER_NAME_BYTES = 104 };
typedef struct mend_owner {
    uint32_t scope;                   /* its number; 0: none */
    uint64_t tag;                     /* 0: none */
    uint64_t block_bytes;             /* of blocks without scope and tag: their size, or the largest
                                       * of several sizes; else 0 */
    uint64_t live_bytes;              /* of all of them */
    uint64_t live_blocks;             /* their number */
    uint64_t oldest;                  /* allocations of the pool since its oldest block */
    uint64_t growth_bytes;            /* above 0: a suspect. Blocks of most of the time are still
                                       * there, and these are what it grew by */
    char name[MEND_OWNER_NAME_BYTES]; /* in words: "step/forward, tag 7", "blocks of 2.00 MiB"; with
                                       * the names of mend_set_name; of long parts the ends are cut,
                                       * of a stack last */
    mend_stream stream; /* of all of them, if it was asked for; else NULL, the default stream's */
    uint32_t stack;     /* its number (mend_stack_set_source); 0: none */
} mend_owner;

/* Where the memory is when a request found none, in exact bytes: what the message of
 * MEND_ERROR_OUT_OF_MEMORY says in words. */
typedef struct mend_oom_report {
    size_t struct_size;       /* set by the library */
    uint64_t requested_bytes; /* size of the request */
    uint64_t fitting_bytes;   /* about a request that would have succeeded, with waits of the host
                               * and without compactions or help of others; 0: none */
    uint64_t limit_bytes;     /* most physical memory that the pool may hold */
    uint64_t
        sufficient_limit_bytes;     /* a limit that would be enough, often the lowest; 0: none is */
    uint64_t reserved_bytes;        /* physical memory that the pool holds */
    uint64_t live_bytes;            /* bytes of live blocks */
    uint64_t free_empty_bytes;      /* bytes of empty chunks */
    uint64_t free_partial_bytes;    /* free bytes of partly used chunks */
    uint64_t waiting_stream_bytes;  /* free bytes that work of streams may still use */
    uint64_t waiting_context_bytes; /* free bytes that were freed without a stream */
    uint64_t graph_pool_bytes;      /* free bytes that are kept for graphs */
    uint64_t emptiest_bytes;        /* free bytes of the emptiest chunk in use */
    uint64_t owner_address;         /* a block in that chunk; 0: there is none */
    uint64_t owner_bytes;           /* its size */
    uint64_t device_bytes;          /* memory of the device */
    uint64_t device_free_bytes;     /* free memory of the device */
    uint64_t device_others_bytes;   /* memory of the device that is neither free nor of this pool:
                                     * of others, or kept by a shared limit file */
    uint64_t pinned_bytes;          /* of free_partial_bytes, in chunks that only pins keep in
                                     * place: they hold no live block */
    const mend_owner *owners[3];    /* those with most bytes, in falling order; NULL: no more of
                                     * them, or no host memory to sum them up */
    const mend_owner *suspect;      /* the one that grew most, of those that look like a leak; NULL:
                                     * none does */
    uint64_t device_kept_bytes;     /* free memory of the device that min_free_bytes keeps from the
                                     * pool */
} mend_oom_report;

/* The last failure of a call in this thread. */
typedef struct mend_error {
    size_t struct_size;
    mend_result result;                /* result of the call; MEND_OK before any failure */
    int driver_status;                 /* the driver's code; 0: no driver call failed */
    const char *driver_name;           /* its name; "": none */
    const char *driver_call;           /* the driver call that failed ("cuMemMap"); "": none */
    const char *message;               /* the failure and its fixes. "" before any failure */
    const mend_oom_report *oom_report; /* for MEND_ERROR_OUT_OF_MEMORY of a pool; otherwise NULL,
                                        * also if another allocator ran out of memory */
} mend_error;
#define MEND_ERROR_INIT                                                                            \
    {                                                                                              \
        sizeof(mend_error), MEND_OK, 0, "", "", "", NULL                                           \
    }

/* Fills *error with the calling thread's last failure; calls that succeed do not change it. The
 * strings and the out-of-memory report are valid until the thread's next failing call. No lock, no
 * driver call. MEND_OK; MEND_ERROR_INVALID_ARGUMENT (error is NULL or its struct_size is wrong; the
 * last failure stays). */
MEND_API mend_result mend_get_last_error(mend_error *error);

/* Makes a failure of the caller's own the calling thread's last one: for code between Mend and a
 * framework, and allocators that are set (mend_set_allocator), whose results have no message
 * otherwise. The message (NULL: an empty one) is copied. MEND_OK changes nothing. Returns `result`.
 * No lock, no driver call. */
MEND_API mend_result mend_set_last_error(mend_result result, const char *message);

/* MEND_VERSION_MAJOR * 10000 + MINOR * 100 + PATCH of the loaded library. No lock, no driver
 * call. */
MEND_API int mend_version(void);

#ifdef __cplusplus
}
#endif

#endif
