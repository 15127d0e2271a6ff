/* Results of calls, and the details of a failure. */
#ifndef MEND_MEND_RESULTS_H
#define MEND_MEND_RESULTS_H

#include <stddef.h>
#include <stdint.h>

#include "mend/mend_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- results --------------------------------------------------------------------------------- */

/* X(name, value, meaning): every mend_result. Values stay. */
#define MEND_RESULTS(X)                                                                            \
    X(MEND_OK, 0, "success")                                                                       \
    X(MEND_ERROR_INVALID_ARGUMENT, 1, "an argument is outside what the call accepts")              \
    X(MEND_ERROR_OUT_OF_MEMORY, 2,                                                                 \
      "the device or the limit has too little memory for the request")                             \
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
    X(MEND_ERROR_EXPORTER_GONE, 17, "the exporting process has ended or does not respond")         \
    X(MEND_ERROR_SYSTEM, 18, "the operating system refused a socket, a thread or a file")          \
    X(MEND_ERROR_ASLEEP, 19, "the memory sleeps: wake it first")                                   \
    X(MEND_ERROR_PINNED, 20, "the memory is pinned or shared, so it has to stay")                  \
    X(MEND_ERROR_CORRUPTION, 21, "memory was written past a block's end, or after its free")

/* The result of a call that can fail. */
typedef enum mend_result {
#define X(name, value, meaning) name = value,
    MEND_RESULTS(X)
#undef X
} mend_result;

/* Return the name of a result ("MEND_ERROR_OUT_OF_MEMORY"): static, never NULL. No lock. */
MEND_API const char *mend_result_name(mend_result result);

/* An owner of memory (mend_get_owners): the live blocks and committed pages of one scope, tag and
 * stack, or of one stream. Bytes are counted as live_bytes of mend_stats. */
enum { MEND_OWNER_NAME_BYTES = 104 };
typedef struct mend_owner {
    uint32_t scope; /* number of its scope */
    uint64_t tag;
    uint64_t block_bytes; /* of blocks without scope and tag: their size, or the
                           * largest */
    uint64_t live_bytes;
    uint64_t live_blocks;
    uint64_t oldest;                  /* allocations since its oldest block */
    uint64_t growth_bytes;            /* above 0: the owner may leak, and has grown by this much */
    char name[MEND_OWNER_NAME_BYTES]; /* in words, with the names of mend_set_name: "step/forward,
                                       * tag 7", "blocks of 2.00 MiB". Long names are cut */
    mend_stream stream;               /* the stream, if you asked for streams */
    uint32_t stack;                   /* number of its stack (mend_stack_set_source) */
} mend_owner;

/* The state of the pool when a request ran out of memory, which the message has in words. Fields
 * without a comment are as in mend_stats. */
typedef struct mend_oom_report {
    size_t struct_size;       /* set by the library */
    uint64_t requested_bytes; /* size of the request */
    uint64_t fitting_bytes;   /* estimate of the largest request that would have succeeded after
                               * waits for the GPU */
    uint64_t limit_bytes;
    uint64_t sufficient_limit_bytes; /* a limit that would be enough, often the lowest */
    uint64_t reserved_bytes;
    uint64_t live_bytes;
    uint64_t free_empty_bytes;
    uint64_t free_partial_bytes;
    uint64_t waiting_stream_bytes;  /* free, but work of streams may still use it */
    uint64_t waiting_context_bytes; /* freed without a stream */
    uint64_t graph_pool_bytes;      /* reserved for graphs */
    uint64_t emptiest_bytes;        /* free in the emptiest chunk in use */
    uint64_t owner_address;         /* address of a block in that chunk */
    uint64_t owner_bytes;           /* its size */
    uint64_t device_bytes;
    uint64_t device_free_bytes;   /* free memory of the device */
    uint64_t device_others_bytes; /* of other pools and processes, or reserved by a shared limit
                                   * file */
    uint64_t pinned_bytes;        /* of free_partial_bytes: in chunks that only pins hold in
                                   * place */
    const mend_owner *owners[3];  /* the largest owners, in falling order */
    const mend_owner *suspect;    /* the fastest-growing owner that may leak */
    uint64_t device_kept_bytes;   /* free memory of the device that min_free_bytes withholds */
} mend_oom_report;

/* The last failure of a call in this thread. */
typedef struct mend_error {
    size_t struct_size;
    mend_result result;                /* MEND_OK before any failure */
    int driver_status;                 /* code of the driver, if a driver call failed */
    const char *driver_name;           /* its name, or "" */
    const char *driver_call;           /* the driver call that failed ("cuMemMap"), or "" */
    const char *message;               /* the failure and its fixes. "" before any failure */
    const mend_oom_report *oom_report; /* after MEND_ERROR_OUT_OF_MEMORY of a pool */
} mend_error;
#define MEND_ERROR_INIT                                                                            \
    {                                                                                              \
        sizeof(mend_error), MEND_OK, 0, "", "", "", NULL                                           \
    }

/*
 * Fill *error with the last failure of this thread. Successful calls do not change it. The strings
 * and the report are valid until the thread's next failure. No lock.
 *
 *     mend_error error = MEND_ERROR_INIT;
 *     mend_get_last_error(&error);
 *     puts(error.message); // and error.oom_report after MEND_ERROR_OUT_OF_MEMORY
 *
 * MEND_OK; MEND_ERROR_INVALID_ARGUMENT (the last failure stays).
 */
MEND_API mend_result mend_get_last_error(mend_error *error);

/* Return the version of the loaded library: MEND_VERSION_MAJOR * 10000 + MINOR * 100 + PATCH. No
 * lock. */
MEND_API int mend_version(void);

#ifdef __cplusplus
}
#endif

#endif
