#include "torch/ranges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "hooks/failures.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_torch.h"
#include "torch/heaps.h"

/* DLPack, the version of its ABI that every PyTorch takes: https://github.com/dmlc/dlpack */
typedef struct dl_tensor {
    void *data;
    struct {
        int32_t kind;
        int32_t ordinal;
    } device;
    int32_t dimensions;
    struct {
        uint8_t code;
        uint8_t bits;
        uint16_t lanes;
    } type;
    int64_t *shape;
    int64_t *strides; /* NULL: contiguous */
    uint64_t offset_bytes;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

enum { DL_CUDA = 2, DL_UNSIGNED = 1 };

/* A range, which ends with the last of its tensors. */
typedef struct owner {
    struct owner *next;
    mend_range *range;
    mend_stream stream;
    void *base;
    int device;
    atomic_size_t tensors;
} owner;

typedef struct tensor {
    dl_managed managed; /* first: PyTorch has its address */
    owner *owner;
    int64_t size_bytes;
} tensor;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static owner *unwanted; /* their tensors are gone */

/* Whether nothing more can be done. */
static bool end(owner *o)
{
    mend_result result = mend_range_destroy(o->range, o->stream);
    if (result == MEND_ERROR_UNKNOWN_STREAM || result == MEND_ERROR_DRIVER) {
        /* The stream has ended before the tensor. */
        o->stream = MEND_NO_STREAM;
        result = mend_range_destroy(o->range, o->stream);
    }
    if (result != MEND_ERROR_CAPTURING) {
        mend_hooks_note(result, "the end of a growable tensor");
    }
    return result == MEND_OK || result == MEND_ERROR_DEVICE_LOST || result == MEND_ERROR_FORKED;
}

static void set_aside(owner *o)
{
    (void)pthread_mutex_lock(&mutex);
    o->next = unwanted;
    unwanted = o;
    (void)pthread_mutex_unlock(&mutex);
}

void mend_torch_ranges_settle(void)
{
    (void)pthread_mutex_lock(&mutex);
    owner *all = unwanted;
    unwanted = NULL;
    (void)pthread_mutex_unlock(&mutex);
    while (all != NULL) {
        owner *o = all;
        all = o->next;
        if (end(o)) {
            free(o);
            continue;
        }
        set_aside(o);
    }
}

static void delete_tensor(dl_managed *managed)
{
    tensor *gone = managed->context;
    owner *o = gone->owner;
    free(gone);
    if (atomic_fetch_sub(&o->tensors, 1) > 1) {
        return;
    }
    set_aside(o);
    mend_torch_ranges_settle();
}

static mend_result no_host_memory(void)
{
    return mend_set_last_error(MEND_ERROR_OUT_OF_HOST_MEMORY,
                               "malloc failed for a growable tensor");
}

static mend_result make_tensor(owner *o, uint64_t size_bytes, void **tensor_of)
{
    tensor *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return no_host_memory();
    }
    *made = (tensor){.managed = {.tensor = {.data = o->base,
                                            .device = {DL_CUDA, o->device},
                                            .dimensions = 1,
                                            .type = {DL_UNSIGNED, 8, 1},
                                            .shape = &made->size_bytes},
                                 .context = made,
                                 .deleter = delete_tensor},
                     .owner = o,
                     .size_bytes = (int64_t)size_bytes};
    (void)atomic_fetch_add(&o->tensors, 1);
    *tensor_of = made;
    return MEND_OK;
}

mend_result mend_torch_range_tensor(const void *whole, uint64_t size_bytes, void **part)
{
    const tensor *known = whole;
    if (size_bytes > (uint64_t)known->size_bytes) {
        return mend_set_last_error(MEND_ERROR_INVALID_ARGUMENT,
                                   "a tensor is larger than the range that it is a part of");
    }
    return make_tensor(known->owner, size_bytes, part);
}

static mend_result create(owner *o, uint64_t size_bytes, const mend_range_options *options,
                          void **whole)
{
    mend_pool *heap;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    mend_result result = mend_torch_heap(o->device, &heap);
    if (result == MEND_OK) {
        result = mend_range_create(heap, size_bytes, options, &o->range);
    }
    if (result == MEND_OK) {
        result = mend_range_get_info(o->range, &info);
    }
    if (result == MEND_OK) {
        o->base = info.base;
        result = make_tensor(o, info.size_bytes, whole);
    }
    return result;
}

mend_result mend_torch_range_create(int device, uint64_t size_bytes,
                                    const mend_range_options *options, mend_stream stream,
                                    mend_range **range, void **whole)
{
    mend_torch_ranges_settle();
    owner *o = calloc(1, sizeof(*o));
    if (o == NULL) {
        return no_host_memory();
    }
    o->device = device;
    o->stream = stream;
    mend_result result = create(o, size_bytes, options, whole);
    if (result != MEND_OK) {
        (void)mend_range_destroy(o->range, MEND_NO_STREAM);
        free(o);
        return result;
    }
    *range = o->range;
    return MEND_OK;
}
