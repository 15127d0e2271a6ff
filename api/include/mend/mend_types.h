/* What all headers of Mend share: names, types, and the log. */
#ifndef MEND_MEND_TYPES_H
#define MEND_MEND_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#error "Mend runs on Linux"
#endif
#define MEND_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define MEND_STREAM_OF(number) reinterpret_cast<mend_stream>(static_cast<uintptr_t>(number))
#else
#define MEND_STREAM_OF(number) ((mend_stream)(uintptr_t)(number))
#endif

/* ---- names and types ------------------------------------------------------------------------- */

/* The version of this header; that of the library is mend_version(). Before 1.0 a minor version may
 * change the interface. */
#define MEND_VERSION_MAJOR 0
#define MEND_VERSION_MINOR 1
#define MEND_VERSION_PATCH 0

/* The same type as cudaStream_t and CUstream. NULL is the legacy default stream; the driver's two
 * special handles (1: legacy, 2: per-thread) are understood. */
typedef struct CUstream_st *mend_stream;

/* No particular stream: for allocations that every stream may use, and for frees where the caller
 * knows no last stream. See mend_alloc and mend_free. In C++ no pointer made of a number is a
 * constant expression: this one may initialise a `const`, but not a `constexpr`. */
#define MEND_NO_STREAM MEND_STREAM_OF(-1)

/* For mend_group_begin: all streams. */
#define MEND_EVERY_STREAM MEND_STREAM_OF(-2)

/* Objects of the library. */
typedef struct mend_pool mend_pool;     /* one allocator on one device */
typedef struct mend_group mend_group;   /* blocks that belong to captured graphs */
typedef struct mend_driver mend_driver; /* a table of driver calls: CUDA, or a simulated device */

/* ---- log ------------------------------------------------------------------------------------- */

/* For mend_pool_config.peers: no other device may use the pool's memory. */
#define MEND_PEERS_NONE (1ull << 63)

/* How much a line of the log matters. */
typedef enum mend_log_level {
    MEND_LOG_DEBUG = 1,  /* to follow what the library does */
    MEND_LOG_INFO = 2,   /* what happens once in a while */
    MEND_LOG_WARNING = 3 /* what somebody should look at */
} mend_log_level;

/* Receives one line without a newline, which lives for the call. Called by any thread, by several
 * at once, and without locks of any pool; may call Mend. */
typedef void (*mend_log_sink)(void *context, mend_log_level level, const char *line);

/* Sends the library's log to `sink` (NULL: nowhere, the default) from now on, for the process; a
 * child of fork starts without one. `context` is borrowed, and handed to the sink; another thread
 * may still be in the former sink when this returns. No driver call. */
MEND_API void mend_log_set_sink(mend_log_sink sink, void *context);

/* Sends a line of the caller's own, without a newline, to the sink: for what stands between Mend
 * and a framework. No driver call. */
MEND_API void mend_log_write(mend_log_level level, const char *line);

#ifdef __cplusplus
}
#endif

#endif
