/* Statistics of a pool (mend_get_stats). */
#ifndef MEND_MEND_STATS_H
#define MEND_MEND_STATS_H

#include <stddef.h>
#include <stdint.h>

/* ---- statistics ------------------------------------------------------------------------------ */

/* X(field, unit, meaning): every field of mend_stats, in bytes (B) or as a count (1). Counters
 * start when the pool is created. peak_... are maxima since then, or since
 * mend_reset_peak_stats. */
#define MEND_STATS(X)                                                                              \
    X(live_bytes, "B",                                                                             \
      "bytes of live blocks, rounded up to 512, and of committed pages. With "                     \
      "observe:guard each block counts 16 bytes more, before rounding")                            \
    X(requested_bytes, "B", "bytes that the program asked for in live blocks")                     \
    X(reserved_bytes, "B", "physical memory that the pool holds")                                  \
    X(free_bytes, "B", "reserved and not live: the sum of the next three")                         \
    X(free_empty_bytes, "B", "in empty chunks, which can be mapped at any address")                \
    X(free_partial_bytes, "B", "in partly used chunks, usable only where it is")                   \
    X(free_small_bytes, "B", "in partly used chunks of the small zone")                            \
    X(peak_live_bytes, "B", "largest live_bytes")                                                  \
    X(peak_reserved_bytes, "B", "largest reserved_bytes")                                          \
    X(limit_bytes, "B", "most physical memory that the pool may hold")                             \
    X(address_bytes, "B", "addresses reserved")                                                    \
    X(mapped_bytes, "B", "addresses mapped, retired mappings included")                            \
    X(retired_bytes, "B", "of these, mappings that wait for a fence before they are unmapped")     \
    X(live_blocks, "1", "live blocks")                                                             \
    X(peak_live_blocks, "1", "largest live_blocks")                                                \
    X(chunks, "1", "physical allocations held")                                                    \
    X(mappings, "1", "mappings held, retired ones included")                                       \
    X(peak_mappings, "1", "largest mappings")                                                      \
    X(streams, "1", "streams that the pool knows")                                                 \
    X(graph_pools, "1", "graph pools created and not destroyed")                                   \
    X(allocations, "1", "successful mend_alloc")                                                   \
    X(frees, "1", "successful mend_free of a block")                                               \
    X(out_of_memory, "1", "requests that ran out of memory")                                       \
    X(placed_in_run, "1", "requests placed in mapped free memory, without a mapping call")         \
    X(placed_by_extension, "1", "requests for which chunks were mapped after a free run")          \
    X(placed_at_new_address, "1", "requests for which chunks were mapped at a new address")        \
    X(chunks_moved, "1", "empty chunks mapped at another address")                                 \
    X(chunks_remade, "1", "empty chunks released so that one of the right size could be created")  \
    X(moves_avoided, "1",                                                                          \
      "requests for which memory was created so that no chunk had to be moved")                    \
    X(chunks_created, "1", "physical allocations created")                                         \
    X(chunks_released, "1", "physical allocations released")                                       \
    X(stream_waits, "1", "times a stream was made to wait for another on the device")              \
    X(host_waits, "1", "CPU stalls: times the CPU waited for the GPU")                             \
    X(context_fences, "1", "events recorded for all work of the context")                          \
    X(pressure_calls, "1", "pressure callbacks called")                                            \
    X(peer_pool_trims, "1", "times other pools of the device were asked to release memory")        \
    X(driver_failures, "1", "driver calls that failed and were undone or worked around")           \
    X(cache_hits, "1", "of placed_in_run, requests served by the cache of blocks")                 \
    X(cached_blocks, "1", "freed blocks in that cache")                                            \
    X(cached_bytes, "B", "of free_bytes, in these blocks")                                         \
    X(compactions, "1", "partly used chunks made empty by copying their live blocks")              \
    X(copied_bytes, "B", "bytes copied for that")                                                  \
    X(unmapped_blocks, "1", "live blocks and pages without a mapping after a failure")             \
    X(device_bytes, "B", "physical memory of the device")                                          \
    X(created_bytes, "B", "physical memory created so far, released or not")                       \
    X(peak_chunks, "1", "largest chunks")                                                          \
    X(allocated_bytes, "B", "bytes of all blocks so far, sizes rounded up to 512")                 \
    X(allocated_requested_bytes, "B", "bytes asked for in all blocks so far")                      \
    X(peak_requested_bytes, "B", "largest requested_bytes")                                        \
    X(small_live_blocks, "1", "of live_blocks, those in chunks of the small zone")                 \
    X(small_live_bytes, "B", "of live_bytes")                                                      \
    X(small_requested_bytes, "B", "of requested_bytes")                                            \
    X(small_reserved_bytes, "B", "of reserved_bytes, mapped in the small zone")                    \
    X(small_chunks, "1", "of chunks, those mapped there")                                          \
    X(small_allocations, "1", "of allocations")                                                    \
    X(small_allocated_bytes, "B", "of allocated_bytes")                                            \
    X(small_allocated_requested_bytes, "B", "of allocated_requested_bytes")                        \
    X(peak_small_live_blocks, "1", "largest small_live_blocks")                                    \
    X(peak_small_live_bytes, "B", "largest small_live_bytes")                                      \
    X(peak_small_requested_bytes, "B", "largest small_requested_bytes")                            \
    X(peak_small_reserved_bytes, "B", "largest small_reserved_bytes")                              \
    X(peak_large_live_blocks, "1", "most live blocks in chunks of the large zone")                 \
    X(peak_large_live_bytes, "B", "most bytes in them")                                            \
    X(peak_large_requested_bytes, "B", "most bytes asked for in them")                             \
    X(peak_large_reserved_bytes, "B", "most physical memory mapped in the large zone")             \
    X(effective_limit_bytes, "B", "limit_bytes, or less if the device has less or refuses more")   \
    X(peer_devices, "1", "other devices that may use the pool's memory")                           \
    X(captures, "1", "captures outside of graph pools with memory reserved for their graphs")      \
    X(pinned_bytes, "B", "of reserved_bytes, in chunks with a pin or an export")                   \
    X(exported_blocks, "1", "exports: live blocks, and pages of ranges, for other processes")      \
    X(exported_bytes, "B", "of reserved_bytes, in chunks with such a block")                       \
    X(imports, "1", "blocks of other processes that are mapped")                                   \
    X(imported_bytes, "B", "of mapped_bytes, in chunks of other processes")                        \
    X(history_events, "1", "events added to the history")                                          \
    X(history_lost, "1", "of these, events that it no longer has")                                 \
    X(asleep_bytes, "B", "memory of sleeping chunks, needed to wake. Not in reserved_bytes")       \
    X(asleep_live_bytes, "B", "of live_bytes, in sleeping chunks")                                 \
    X(backup_host_bytes, "B", "contents of these, in pinned host memory")                          \
    X(backup_file_bytes, "B", "contents of these, in files")                                       \
    X(sleeps, "1", "successful mend_sleep that put memory to sleep")                               \
    X(wakes, "1", "successful mend_wake that woke memory")                                         \
    X(dropped_bytes, "B", "contents of blocks that were dropped when they went to sleep")          \
    X(ranges, "1", "growable ranges (mend_range.h)")                                               \
    X(range_bytes, "B", "of live_bytes, committed pages of ranges")                                \
    X(peak_range_bytes, "B", "largest range_bytes")                                                \
    X(range_free_bytes, "B", "of free_bytes, still mapped in ranges")                              \
    X(range_address_bytes, "B", "of address_bytes, in ranges")                                     \
    X(pages_committed, "1", "pages of ranges committed so far")                                    \
    X(pages_decommitted, "1", "pages of ranges decommitted so far")                                \
    X(soft_limit_bytes, "B", "above this the pool grows only if nothing else helps. 0: none")      \
    X(soft_limit_passed, "1", "allocations for which the pool grew above it")                      \
    X(background_trimmed_bytes, "B", "total released by background trims")                         \
    X(record_lost, "1", "events missing from the recording of the pool")                           \
    X(backup_cache_bytes, "B", "pinned host memory that wakes left for the next sleep")            \
    X(waited_requests, "1", "requests for which the CPU waited for the GPU")                       \
    X(shared_limit_file_lost, "1",                                                                 \
      "1: shared_limit_file is damaged, and its pools no longer share one limit")                  \
    X(pending_bytes, "B", "of free_bytes, memory that another stream than its own may still use")  \
    X(importers_bytes, "B", "released exported memory that importers may still hold, at most")     \
    X(passed_bytes, "B", "of live_bytes, plain blocks: allocations of the driver")                 \
    X(passed_blocks, "1", "of live_blocks, these")                                                 \
    X(bare_device, "1", "1: the device has neither virtual memory nor a pool of the driver's own")

/* The statistics of a pool. */
typedef struct mend_stats {
    size_t struct_size;
#define X(field, unit, meaning) uint64_t field;
    MEND_STATS(X)
#undef X
} mend_stats;
#define MEND_STATS_ZERO(field, unit, meaning) , 0
#define MEND_STATS_INIT                                                                            \
    {                                                                                              \
        sizeof(mend_stats) MEND_STATS(MEND_STATS_ZERO)                                             \
    }

#endif
