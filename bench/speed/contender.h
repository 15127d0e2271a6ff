/*
 * Allocators under the stopwatch, behind one small face, each loaded as the shared library it ships
 * as and called through a pointer: Mend on a simulated device, mimalloc and jemalloc. None replaces
 * malloc of this process. It compares bookkeeping on the CPU: Mend returns addresses of device
 * memory, the others return memory, and both stay untouched.
 */
#ifndef MEND_SPEED_CONTENDER_H
#define MEND_SPEED_CONTENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPEED_CONTENDERS = 4 };

/* In the order of their names below. "before" is another build of Mend, whose libraries lie in the
 * folder that MEND_BENCH_BEFORE names: two builds are compared best in one run. */
typedef enum speed_contender {
    SPEED_MEND,
    SPEED_BEFORE,
    SPEED_MIMALLOC,
    SPEED_JEMALLOC
} speed_contender;

/* "mend", "before", "mimalloc", "jemalloc". */
const char *speed_name(speed_contender contender);

/* Loads its library, once. False: it is not available here, and standard error has the reason,
 * once. None for a "before" that was not requested. For the main thread. */
bool speed_load(speed_contender contender);

/* A fresh pool of Mend, or the one heap that the others have. */
typedef struct speed_heap speed_heap;

/* The allocator of a thread. Mend's have a stream each. A block is freed on the lane it came from,
 * or on another whose thread has taken it over. */
typedef struct speed_lane speed_lane;
struct speed_lane {
    void *(*alloc)(const speed_lane *lane, size_t size_bytes); /* NULL: it failed */
    void (*free)(const speed_lane *lane, void *block);
    /* Mend's: */
    const struct speed_library *library;
    struct mend_pool *pool;
    struct CUstream_st *stream;
};

/* For a contender that is loaded. Nothing is live when it is destroyed. NULL: it cannot be made. */
speed_heap *speed_heap_create(speed_contender contender, size_t lane_count);
void speed_heap_destroy(speed_heap *heap);
const speed_lane *speed_heap_lane(const speed_heap *heap, size_t index);

#ifdef __cplusplus
}
#endif

#endif
