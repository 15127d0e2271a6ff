#include "speed/contender.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "speed/library.h"

struct speed_heap {
    speed_lane face; /* of all lanes */
    mend_sim *sim;   /* NULL: not Mend */
    speed_lane *lanes;
};

/* The calls of the others, where they are loaded. */
static void *(*mimalloc_alloc)(size_t size_bytes);
static void (*mimalloc_free)(void *block);
static void *(*jemalloc_alloc)(size_t size_bytes, int flags);
static void (*jemalloc_free)(void *block, int flags);
static speed_library libraries[SPEED_BEFORE + 1];

const char *speed_name(speed_contender contender)
{
    static const char *const names[SPEED_CONTENDERS] = {"mend", "before", "mimalloc", "jemalloc"};
    return names[contender];
}

/* ---- loading --------------------------------------------------------------------------------- */

static bool load_pair(const char *file, const char *alloc_name, void *alloc_call,
                      const char *free_name, void *free_call)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL || !speed_find(handle, alloc_name, alloc_call) ||
        !speed_find(handle, free_name, free_call)) {
        fprintf(stderr, "%s is left out: %s\n", file, dlerror());
        return false;
    }
    return true;
}

static bool load(speed_contender contender)
{
    const char *before = getenv("MEND_BENCH_BEFORE");
    switch (contender) {
    case SPEED_MEND:
        return speed_library_open(NULL, &libraries[SPEED_MEND]);
    case SPEED_BEFORE:
        return before != NULL && speed_library_open(before, &libraries[SPEED_BEFORE]);
    case SPEED_MIMALLOC:
        return load_pair("libmimalloc.so", "mi_malloc", &mimalloc_alloc, "mi_free", &mimalloc_free);
    case SPEED_JEMALLOC:
        if (load_pair("libjemalloc.so", "mallocx", &jemalloc_alloc, "dallocx", &jemalloc_free)) {
            return true;
        }
        fprintf(stderr, "A program that is already running has room for jemalloc's data of each "
                        "thread only with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384.\n");
        return false;
    }
    return false;
}

bool speed_load(speed_contender contender)
{
    static enum { UNKNOWN, LOADED, MISSING } known[SPEED_CONTENDERS];
    if (known[contender] == UNKNOWN) {
        known[contender] = load(contender) ? LOADED : MISSING;
    }
    return known[contender] == LOADED;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void *alloc_by_mend(const speed_lane *lane, size_t size_bytes)
{
    void *block = NULL;
    mend_result result = lane->library->mend_alloc(lane->pool, size_bytes, lane->stream, &block);
    return result == MEND_OK ? block : NULL;
}

static void free_by_mend(const speed_lane *lane, void *block)
{
    lane->library->mend_free(lane->pool, block, lane->stream);
}

static void *alloc_by_mimalloc(const speed_lane *lane, size_t size_bytes)
{
    (void)lane;
    return mimalloc_alloc(size_bytes);
}

static void free_by_mimalloc(const speed_lane *lane, void *block)
{
    (void)lane;
    mimalloc_free(block);
}

static void *alloc_by_jemalloc(const speed_lane *lane, size_t size_bytes)
{
    (void)lane;
    return jemalloc_alloc(size_bytes, 0);
}

static void free_by_jemalloc(const speed_lane *lane, void *block)
{
    (void)lane;
    jemalloc_free(block, 0);
}

/* ---- heaps ----------------------------------------------------------------------------------- */

/* A device large enough never to be in the way. */
static bool create_pool(speed_heap *heap, const speed_library *library)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = UINT64_C(1) << 40;
    heap->face.library = library;
    if (library->mend_sim_create(&config, &heap->sim) != MEND_OK) {
        return false;
    }
    mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
    pool_config.driver = library->mend_sim_driver(heap->sim);
    return library->mend_pool_create(&pool_config, &heap->face.pool) == MEND_OK;
}

static bool fill_face(speed_heap *heap, speed_contender contender)
{
    switch (contender) {
    case SPEED_MEND:
    case SPEED_BEFORE:
        heap->face.alloc = alloc_by_mend;
        heap->face.free = free_by_mend;
        return create_pool(heap, &libraries[contender]);
    case SPEED_MIMALLOC:
        heap->face.alloc = alloc_by_mimalloc;
        heap->face.free = free_by_mimalloc;
        return true;
    case SPEED_JEMALLOC:
        heap->face.alloc = alloc_by_jemalloc;
        heap->face.free = free_by_jemalloc;
        return true;
    }
    return false;
}

speed_heap *speed_heap_create(speed_contender contender, size_t lane_count)
{
    speed_heap *heap = calloc(1, sizeof(speed_heap));
    if (heap == NULL) {
        return NULL;
    }
    heap->lanes = calloc(lane_count, sizeof(speed_lane));
    bool good = heap->lanes != NULL && fill_face(heap, contender);
    for (size_t i = 0; good && i < lane_count; i++) {
        heap->lanes[i] = heap->face;
        good = heap->sim == NULL || heap->face.library->mend_sim_stream_create(
                                        heap->sim, NULL, &heap->lanes[i].stream) == MEND_OK;
    }
    if (!good) {
        speed_heap_destroy(heap);
        return NULL;
    }
    return heap;
}

void speed_heap_destroy(speed_heap *heap)
{
    if (heap->face.pool != NULL) {
        heap->face.library->mend_pool_destroy(heap->face.pool);
    }
    if (heap->sim != NULL) {
        heap->face.library->mend_sim_destroy(heap->sim);
    }
    free(heap->lanes);
    free(heap);
}

const speed_lane *speed_heap_lane(const speed_heap *heap, size_t index)
{
    return &heap->lanes[index];
}
