/* Names, types and the log, which all headers of Mend share. */
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

/* The version of this header. mend_version() returns the library's. Before 1.0 a minor version may
 * change the interface. */
#define MEND_VERSION_MAJOR 0
#define MEND_VERSION_MINOR 1
#define MEND_VERSION_PATCH 0

/* The same type as cudaStream_t and CUstream. NULL is the legacy default stream. The driver's two
 * special handles (1: legacy, 2: per-thread) are accepted. */
typedef struct CUstream_st *mend_stream;

/* No particular stream: for allocations that every stream may use, and for frees where you know no
 * last stream. In C++ it is not a `constexpr`. */
#define MEND_NO_STREAM MEND_STREAM_OF(-1)

/* For mend_graph_pool_begin: all streams. */
#define MEND_EVERY_STREAM MEND_STREAM_OF(-2)

/* For mend_pool_config.shareable: by file descriptors, by fabric handles too if the device has them
 * (the log warns if the driver refuses them), or by file descriptors if the device supports them.
 */
#define MEND_SHAREABLE_ON     1
#define MEND_SHAREABLE_FABRIC 2
#define MEND_SHAREABLE_AUTO   3

/* For mend_pool_config.peers: no other device may use the pool's memory. */
#define MEND_PEERS_NONE (1ull << 63)

/* Objects of the library. */
typedef struct mend_pool mend_pool;             /* one allocator on one device */
typedef struct mend_graph_pool mend_graph_pool; /* blocks that belong to captured graphs */
typedef struct mend_driver mend_driver; /* a table of driver calls: CUDA, or a simulated device */

/* ---- log ------------------------------------------------------------------------------------- */

/* The importance of a log line. */
typedef enum mend_log_level {
    MEND_LOG_DEBUG = 1,  /* details of the library's steps */
    MEND_LOG_INFO = 2,   /* rare events: pools, stalls of the CPU */
    MEND_LOG_WARNING = 3 /* out of memory, a limit below the held memory, live blocks when a pool is
                          * destroyed */
} mend_log_level;

/* Receive one line without a newline, valid during the call. Any threads call it, at the same time
 * and without a lock. It may call Mend. */
typedef void (*mend_log_sink)(void *context, mend_log_level level, const char *line);

/*
 * Send the log of the process to `sink`. NULL, the default, means standard error, as
 * mend_pool_config.log_level says. `context` is borrowed and passed to the sink. Another thread may
 * still be inside the previous sink when this returns. A child of fork has no sink.
 *
 *     void print_line(void *file, mend_log_level level, const char *line);
 *     mend_log_set_sink(print_line, stderr);
 */
MEND_API void mend_log_set_sink(mend_log_sink sink, void *context);

/* Write a line, without a newline, to the log: for code between Mend and a framework. Warnings that
 * begin with the same words, up to a number, are logged once. */
MEND_API void mend_log_write(mend_log_level level, const char *line);

#ifdef __cplusplus
}
#endif

#endif
