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
    X(limit, limit_bytes, LIMIT, "the device's memory", "most physical memory a pool may hold")    \
    X(soft_limit, soft_limit_bytes, BYTES, "none",                                                 \
      "above this the pool grows only after all that needs no growth, and the pressure callbacks") \
    X(growth, growth_percent, GROWTH, "none",                                                      \
      "of the most bytes that were live: above it a stream waits on the device for what others "   \
      "freed longest ago, before the pool grows")                                                  \
    X(min_free, min_free_bytes, BYTES, "none",                                                     \
      "of the device's memory, left free for others; the driver is asked before each creation")    \
    X(idle_ms, idle_ms, COUNT, "none",                                                             \
      "milliseconds after which memory that no block has used goes back; a thread sees to it")     \
    X(shared_limit_file, shared_limit_file, PATH, "none",                                          \
      "file by which processes share the limit, which all name alike")                             \
    X(record, record, PATH, "none", "file for a recording of what happens: see history.md")        \
    X(observe, observe, OBSERVE, "none",                                                           \
      "top: a thread shows figures once a second, for libmend top; a path: on SIGUSR2 it writes "  \
      "what a pool holds there, with a number behind: see history.md. poison, guard: looks for "   \
      "programs that write after a free or behind a block; slow: see troubleshooting.md")          \
    X(strategy, strategy, STRATEGY, "3",                                                           \
      "1 for fewest driver calls, in large chunks, to 5 for least memory, in small chunks")        \
    X(plain, plain, SWITCH, "off",                                                                 \
      "each block is an allocation of cuMemAlloc of its own, for cudaIpcGetMemHandle and older "   \
      "MPI")                                                                                       \
    X(address_reservation, address_reservation_bytes, BYTES, "twice the device's memory",          \
      "addresses reserved at a time")                                                              \
    X(in_one_chunk, in_one_chunk_bytes, BYTES, "none",                                             \
      "blocks from this size on lie in one physical allocation each, for libraries that register " \
      "memory: see sharing.md")                                                                    \
    X(allow_stream_waits, allow_stream_waits, SWITCH, "on",                                        \
      "one stream may be made to wait for another on the device; off for kernels that spin on "    \
      "each other")                                                                                \
    X(allow_context_fences, allow_context_fences, SWITCH, "on",                                    \
      "before it grows, Mend may wait for the whole context; off if the program captures on "      \
      "streams that Mend never sees")                                                              \
    X(detect_destroyed_streams, detect_destroyed_streams, SWITCH, "off",                           \
      "the program destroys streams without mend_unregister_stream; costs a question to the "      \
      "driver "                                                                                    \
      "at each call")                                                                              \
    X(capture_checks, capture_checks, SWITCH, "on",                                                \
      "the driver is asked at each call on a created stream whether that stream is captured; "     \
      "off: "                                                                                      \
      "only while a graph pool is begun, for a program that captures only in its own graph "       \
      "pools, or not "                                                                             \
      "at all")                                                                                    \
    X(rdma, rdma, SWITCH, "on",                                                                    \
      "physical memory can be registered for GPUDirect RDMA, if the device supports it")           \
    X(peers, peers, PEERS, "auto",                                                                 \
      "other devices that may use a pool's memory: those on which the process has a pool, none, "  \
      "or a list of their numbers")                                                                \
    X(shareable, shareable, SHARING, "off",                                                        \
      "other processes can import what a pool exports, and PyTorch can send tensors to them; the " \
      "device must support it, but for auto, which is off where it does not. fabric: also by "     \
      "fabric handles, where the device has them")                                                 \
    X(log_level, log_level, LOG, "each warning once",                                              \
      "log lines go to standard error unless the program has a sink: off, warning (out of "        \
      "memory, "                                                                                   \
      "a limit below what is held, blocks that are live when a pool is destroyed), info (also "    \
      "pools and host waits), debug. By default a process tells each kind of warning once, but "   \
      "those that a call returns")

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
