/*
 * Settings for programs that cannot be edited: MEND_CONF="limit:64GiB,allow_stream_waits:off" in
 * the environment sets the fields of mend_pool_config that the program left at their defaults.
 */
#ifndef MEND_POOL_CONFIGURATION_H
#define MEND_POOL_CONFIGURATION_H

#include <stdbool.h>

#include "mend/mend.h"

/*
 * X(key, field of mend_pool_config, kind of value, default, meaning): every key. docs/tuning.md
 * shows this table. configuration.c has the values of each kind.
 */
#define MEND_CONFIGURATION(X)                                                                      \
    X(limit, limit_bytes, LIMIT, "the device's memory", "most physical memory of a pool")          \
    X(soft_limit, soft_limit_bytes, BYTES, "none", "limit that gives way")                         \
    X(growth, growth_percent, GROWTH, "none",                                                      \
      "of the most live bytes: above it streams wait before the pool grows")                       \
    X(min_free, min_free_bytes, BYTES, "none",                                                     \
      "of the device's memory, which the pool leaves free")                                        \
    X(idle_ms, idle_ms, COUNT, "none", "milliseconds until a thread releases unused memory")       \
    X(shared_limit_file, shared_limit_file, PATH, "none",                                          \
      "file of processes that share the limit, the same in each")                                  \
    X(record, record, PATH, "none", "file for a recording: see history.md")                        \
    X(observe, observe, OBSERVE, "none",                                                           \
      "for libmend top, blocks at SIGUSR2, checks of writes: see history.md, troubleshooting.md")  \
    X(strategy, strategy, STRATEGY, "3", "from fewest driver calls (1) to least memory (5)")       \
    X(plain, plain, SWITCH, "off", "each block is a cuMemAlloc of its own: see sharing.md")        \
    X(address_reservation, address_reservation_bytes, BYTES, "twice the device's memory",          \
      "addresses reserved at a time")                                                              \
    X(in_one_chunk, in_one_chunk_bytes, BYTES, "none",                                             \
      "blocks from this size on are one physical allocation each")                                 \
    X(allow_stream_waits, allow_stream_waits, SWITCH, "on",                                        \
      "a stream may wait for another on the GPU")                                                  \
    X(allow_context_fences, allow_context_fences, SWITCH, "on",                                    \
      "the pool may wait for the whole context")                                                   \
    X(detect_destroyed_streams, detect_destroyed_streams, SWITCH, "off",                           \
      "streams end without mend_unregister_stream")                                                \
    X(capture_checks, capture_checks, SWITCH, "on",                                                \
      "asks the driver at each call whether the stream is captured")                               \
    X(rdma, rdma, SWITCH, "on", "memory can be registered for GPUDirect RDMA")                     \
    X(peers, peers, PEERS, "auto", "other devices that may use the memory")                        \
    X(shareable, shareable, SHARING, "off", "other processes can import the memory")               \
    X(log_level, log_level, LOG, "each warning once", "lines that go to standard error")

/*
 * Reads "key:value,..." and sets the fields that are 0. The program's values stay. NULL or ""
 * changes nothing. `config` is the library's copy, of full size. On an error it is untouched, even
 * if the wrong item names a field that would have stayed. MEND_OK; MEND_ERROR_INVALID_ARGUMENT: an
 * unknown or repeated key, a value that its kind does not allow, an empty item (a comma at the end
 * makes one), white space anywhere. mend_get_last_error names the key, the value and what is
 * allowed. A path that comes from the text ends there with a comma or the text. It is shorter than
 * MEND_CONFIGURATION_PATH.
 */
enum { MEND_CONFIGURATION_PATH = 256 };
mend_result mend_configuration_read(const char *text, mend_pool_config *config);

/* The contents of mend_pool_config.observe. */
enum { MEND_CHECK_POISON = 1, MEND_CHECK_GUARD = 2 };
typedef struct mend_observed {
    bool top;
    int checks;                              /* MEND_CHECK_ bits */
    char snapshots[MEND_CONFIGURATION_PATH]; /* their path. "": none */
} mend_observed;

/* Reads as many of its words as the text begins with, each one once. Returns their length, with the
 * commas between them. */
size_t mend_configuration_read_observe(const char *text, mend_observed *observed);

/* Whether the fields whose kinds are numbers are numbers. MEND_OK; MEND_ERROR_INVALID_ARGUMENT
 * (names the first that is not). */
mend_result mend_configuration_check(const mend_pool_config *config);

#endif
