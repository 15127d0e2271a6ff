#include "torch/pools.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "hooks/failures.h"
#include "mend/mend_frameworks.h"
#include "torch/heaps.h"

struct mend_torch_pool {
    mend_torch_pool *next; /* of all pools */
    mend_torch_pool_id id;
    int device;
    int uses;
    int held; /* calls that use it now */
    uint64_t number;
    bool is_foreign;
    bool keeps;     /* memory stays with the pool */
    bool is_marked; /* it may serve requests that ran out of memory */
    mend_graph_pool *graph_pool;
};

/* A pool that takes requests. */
typedef struct route {
    struct route *next; /* begun before this one */
    mend_torch_pool *pool;
    mend_torch_takes takes;
    void (*drop)(void *context);
    void *context;
} route;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static mend_torch_pool *pools;
static route *routes[MEND_TORCH_DEVICES];
/* The numbers are tags of blocks, by which they also sleep (mend_sleep.h): not a program's. */
static uint64_t last_number = UINT64_C(1) << 62;

/* Written under the mutex, read without it. */
static _Atomic int route_counts[MEND_TORCH_DEVICES];
static _Atomic int graph_pool_count;

static bool is_device(int device)
{
    return device >= 0 && device < MEND_TORCH_DEVICES;
}

static mend_result failed(mend_result result, const char *why)
{
    (void)mend_set_last_error(result, why);
    return result;
}

static mend_result wrong(const char *why)
{
    return failed(MEND_ERROR_INVALID_ARGUMENT, why);
}

static mend_result not_begun(void)
{
    return wrong("the memory pool has not begun");
}

static mend_result no_device(void)
{
    return failed(MEND_ERROR_NO_DEVICE, "a memory pool's device is not from 0 to 63");
}

static mend_result no_host_memory(void)
{
    return failed(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for a memory pool");
}

bool mend_torch_pools_take(int device)
{
    return is_device(device) &&
           atomic_load_explicit(&route_counts[device], memory_order_relaxed) != 0;
}

bool mend_torch_pools_keep(void)
{
    return atomic_load_explicit(&graph_pool_count, memory_order_relaxed) != 0;
}

static mend_torch_pool *find(int device, mend_torch_pool_id id)
{
    mend_torch_pool *pool = pools;
    while (pool != NULL && (pool->uses == 0 || pool->device != device ||
                            pool->id.first != id.first || pool->id.second != id.second)) {
        pool = pool->next;
    }
    return pool;
}

/* Gives the memory of a pool without users and without a call in it back, and forgets the pool. If
 * the driver refuses, the pool stays, and this is tried again when another pool is released. */
static mend_result retire(mend_torch_pool *pool)
{
    assert(pool->uses == 0 && pool->held == 0);
    if (pool->graph_pool != NULL) {
        mend_result result = mend_graph_pool_destroy(pool->graph_pool, MEND_NO_STREAM);
        if (result != MEND_OK) {
            return result;
        }
        atomic_fetch_sub_explicit(&graph_pool_count, 1, memory_order_relaxed);
    }
    mend_torch_pool **link = &pools;
    while (*link != pool) {
        link = &(*link)->next;
    }
    *link = pool->next;
    free(pool);
    return MEND_OK;
}

static mend_result retire_all(void)
{
    mend_result result = MEND_OK;
    for (mend_torch_pool *pool = pools, *next; pool != NULL; pool = next) {
        next = pool->next;
        if (pool->uses == 0 && pool->held == 0) {
            mend_result here = retire(pool);
            result = result == MEND_OK ? here : result;
        }
    }
    return result;
}

static mend_torch_pool *made(int device, mend_torch_pool_id id, bool is_foreign, bool keeps)
{
    mend_torch_pool *pool = calloc(1, sizeof(*pool));
    if (pool != NULL) {
        pool->id = id;
        pool->device = device;
        pool->number = ++last_number;
        pool->is_foreign = is_foreign;
        pool->keeps = keeps;
        pool->next = pools;
        pools = pool;
    }
    return pool;
}

mend_result mend_torch_pool_add(int device, mend_torch_pool_id id, int is_foreign)
{
    if (!is_device(device)) {
        return no_device();
    }
    pthread_mutex_lock(&mutex);
    mend_torch_pool *pool = find(device, id);
    if (pool == NULL) {
        pool = made(device, id, is_foreign != 0, false);
    }
    if (pool != NULL) {
        pool->uses++;
    }
    pthread_mutex_unlock(&mutex);
    return pool != NULL ? MEND_OK : no_host_memory();
}

/* Memory of graphs may be PyTorch's own, of cudaMalloc, which cudaIpcGetMemHandle takes. */
static bool graphs_are_native(void)
{
    const char *wish = secure_getenv("MEND_TORCH_GRAPHS");
    return wish != NULL && strcmp(wish, "native") == 0;
}

/* The identifier of no pool: for a device where PyTorch's own allocator serves all requests. */
static const mend_torch_pool_id EVERYTHING = {0, 0};

static bool new_pools_are_native(int device)
{
    return graphs_are_native() || find(device, EVERYTHING) != NULL;
}

int mend_torch_pool_begins_native(int device, mend_torch_pool_id id)
{
    pthread_mutex_lock(&mutex);
    const mend_torch_pool *pool = find(device, id);
    bool is_native = pool != NULL ? pool->is_foreign : new_pools_are_native(device);
    pthread_mutex_unlock(&mutex);
    return is_native;
}

static route **find_route(int device, mend_torch_pool_id id)
{
    route **link = &routes[device];
    while (*link != NULL &&
           ((*link)->pool->id.first != id.first || (*link)->pool->id.second != id.second)) {
        link = &(*link)->next;
    }
    return link;
}

static mend_result begin(int device, mend_torch_pool_id id, route *begun)
{
    if (*find_route(device, id) != NULL) {
        return wrong("the memory pool has begun already");
    }
    mend_torch_pool *pool = find(device, id);
    if (pool == NULL) {
        pool = made(device, id, new_pools_are_native(device), true);
    }
    if (pool == NULL) {
        return no_host_memory();
    }
    pool->uses++;
    begun->pool = pool;
    begun->next = routes[device];
    routes[device] = begun;
    atomic_fetch_add_explicit(&route_counts[device], 1, memory_order_relaxed);
    return MEND_OK;
}

mend_result mend_torch_pool_begin(int device, mend_torch_pool_id id, mend_torch_takes takes,
                                  void (*drop)(void *context), void *context)
{
    if (!is_device(device)) {
        return no_device();
    }
    route *begun = calloc(1, sizeof(*begun));
    if (begun == NULL) {
        return no_host_memory();
    }
    begun->takes = takes;
    begun->drop = drop;
    begun->context = context;
    pthread_mutex_lock(&mutex);
    mend_result result = begin(device, id, begun);
    pthread_mutex_unlock(&mutex);
    if (result != MEND_OK) {
        free(begun);
    }
    return result;
}

static int takes_everything(void *context, mend_stream stream)
{
    (void)context;
    (void)stream;
    return MEND_TORCH_TAKES;
}

mend_result mend_torch_pools_leave(int device)
{
    mend_result result = mend_torch_pool_add(device, EVERYTHING, 1);
    return result == MEND_OK
               ? mend_torch_pool_begin(device, EVERYTHING, takes_everything, NULL, NULL)
               : result;
}

mend_result mend_torch_pool_end(int device, mend_torch_pool_id id)
{
    if (!is_device(device)) {
        return not_begun();
    }
    pthread_mutex_lock(&mutex);
    route **link = find_route(device, id);
    route *ended = *link;
    if (ended != NULL) {
        *link = ended->next;
        atomic_fetch_sub_explicit(&route_counts[device], 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&mutex);
    if (ended == NULL) {
        return not_begun();
    }
    if (ended->drop != NULL) {
        ended->drop(ended->context);
    }
    free(ended);
    return MEND_OK;
}

mend_result mend_torch_pool_remove(int device, mend_torch_pool_id id)
{
    pthread_mutex_lock(&mutex);
    mend_torch_pool *pool = find(device, id);
    bool is_routed = pool != NULL && pool->uses == 1 && *find_route(device, id) != NULL;
    mend_result result;
    if (pool == NULL || is_routed) {
        result = wrong(is_routed ? "the memory pool has begun, and this is its last user"
                                 : "there is no such memory pool");
    } else {
        pool->uses--;
        result = retire_all();
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

void mend_torch_pool_mark(int device, mend_torch_pool_id id, int is_marked)
{
    pthread_mutex_lock(&mutex);
    mend_torch_pool *pool = find(device, id);
    if (pool != NULL) {
        pool->is_marked = is_marked != 0;
    }
    pthread_mutex_unlock(&mutex);
}

size_t mend_torch_pools_marked(int device, mend_torch_pool_id *ids, size_t capacity)
{
    size_t count = 0;
    pthread_mutex_lock(&mutex);
    for (const mend_torch_pool *pool = pools; pool != NULL; pool = pool->next) {
        if (pool->is_marked && pool->uses > 0 && pool->device == device) {
            if (count < capacity) {
                ids[count] = pool->id;
            }
            count++;
        }
    }
    pthread_mutex_unlock(&mutex);
    return count;
}

mend_result mend_torch_pool_get_info(int device, mend_torch_pool_id id, mend_torch_pool_info *info)
{
    mend_torch_pool_info all = MEND_TORCH_POOL_INFO_INIT;
    if (info == NULL || info->struct_size < sizeof(all)) { /* of one release */
        return wrong("mend_torch_pool_get_info: info is NULL, or its struct_size is wrong: begin "
                     "with MEND_TORCH_POOL_INFO_INIT");
    }
    pthread_mutex_lock(&mutex);
    const mend_torch_pool *pool = find(device, id);
    if (pool != NULL) {
        all.users = pool->uses;
        all.is_foreign = pool->is_foreign;
        all.graph_pool = pool->graph_pool;
    }
    all.is_begun = is_device(device) && *find_route(device, id) != NULL;
    pthread_mutex_unlock(&mutex);
    *info = all;
    return MEND_OK;
}

/* The pool with the number, or with the graph pool. {0, 0}: none. */
static mend_torch_pool_id pool_id_of(uint64_t number, const mend_graph_pool *graph_pool)
{
    mend_torch_pool_id id = {0, 0};
    pthread_mutex_lock(&mutex);
    for (const mend_torch_pool *pool = pools; pool != NULL; pool = pool->next) {
        if (pool->number == number || (graph_pool != NULL && pool->graph_pool == graph_pool)) {
            id = pool->id;
        }
    }
    pthread_mutex_unlock(&mutex);
    return id;
}

mend_torch_pool_id mend_torch_pool_of_tag(uint64_t tag)
{
    return tag != 0 ? pool_id_of(tag, NULL) : (mend_torch_pool_id){0, 0};
}

mend_torch_pool_id mend_torch_pool_of_graph_pool(const mend_graph_pool *graph_pool)
{
    return pool_id_of(0, graph_pool);
}

/* ---- for requests and frees ------------------------------------------------------------------ */

mend_torch_pool *mend_torch_pool_taking(int device, mend_stream stream)
{
    mend_torch_pool *pool = NULL;
    pthread_mutex_lock(&mutex);
    for (route *at = routes[device]; at != NULL && pool == NULL; at = at->next) {
        int answer = at->takes(at->context, stream);
        if (answer != 0) {
            pool = at->pool;
            pool->held++;
            pool->keeps = pool->keeps || answer == MEND_TORCH_TAKES_CAPTURED;
        }
    }
    pthread_mutex_unlock(&mutex);
    return pool;
}

int mend_torch_pool_takes(int device, mend_stream stream)
{
    mend_torch_pool *pool =
        mend_torch_pools_take(device) ? mend_torch_pool_taking(device, stream) : NULL;
    if (pool != NULL) {
        mend_torch_pool_let_go(pool);
    }
    return pool != NULL;
}

mend_torch_pool *mend_torch_pool_named(int device, mend_torch_pool_id id)
{
    pthread_mutex_lock(&mutex);
    mend_torch_pool *pool = find(device, id);
    pool = pool != NULL && pool->graph_pool != NULL ? pool : NULL;
    if (pool != NULL) {
        pool->held++;
    }
    pthread_mutex_unlock(&mutex);
    return pool;
}

mend_torch_pool *mend_torch_pool_keeping(uint64_t number)
{
    pthread_mutex_lock(&mutex);
    mend_torch_pool *pool = pools;
    while (pool != NULL && (pool->number != number || pool->graph_pool == NULL)) {
        pool = pool->next;
    }
    if (pool != NULL) {
        pool->held++;
    }
    pthread_mutex_unlock(&mutex);
    return pool;
}

void mend_torch_pool_let_go(mend_torch_pool *pool)
{
    pthread_mutex_lock(&mutex);
    assert(pool->held > 0);
    pool->held--;
    if (pool->uses == 0 && pool->held == 0) {
        mend_hooks_note(retire(pool), "the release of a memory pool of PyTorch's");
    }
    pthread_mutex_unlock(&mutex);
}

bool mend_torch_pool_is_foreign(const mend_torch_pool *pool)
{
    return pool->is_foreign;
}

uint64_t mend_torch_pool_number(const mend_torch_pool *pool)
{
    return pool->number;
}

mend_result mend_torch_pool_graph_pool_of(mend_torch_pool *pool, mend_graph_pool **graph_pool)
{
    mend_result result = MEND_OK;
    pthread_mutex_lock(&mutex);
    assert(pool->held > 0);
    if (pool->keeps && !pool->is_foreign && pool->graph_pool == NULL) {
        mend_pool *heap;
        result = mend_torch_heap(pool->device, &heap);
        if (result == MEND_OK) {
            result = mend_graph_pool_create(heap, &pool->graph_pool);
        }
        if (result == MEND_OK) {
            atomic_fetch_add_explicit(&graph_pool_count, 1, memory_order_relaxed);
        }
    }
    *graph_pool = pool->graph_pool;
    pthread_mutex_unlock(&mutex);
    return result;
}
