#include "torch/rounding.h"

#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "torch/heaps.h"

typedef struct note {
    uintptr_t address;
    mend_torch_rounded rounded;
} note;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *notes; /* a tree by address, of <search.h> */
static mend_torch_excess sums[MEND_TORCH_DEVICES];

/* Written under the mutex, read without it. */
static _Atomic uint64_t note_count;

static int compare(const void *a, const void *b)
{
    uintptr_t first = ((const note *)a)->address;
    uintptr_t second = ((const note *)b)->address;
    return (first > second) - (first < second);
}

static note *find(const void *pointer)
{
    const note key = {.address = (uintptr_t)pointer};
    note **found = tfind(&key, &notes, compare);
    return found != NULL ? *found : NULL;
}

static mend_torch_rounded drop(note *at)
{
    mend_torch_rounded rounded = at->rounded;
    mend_torch_excess *sum = &sums[rounded.device];
    sum->live -= rounded.excess_bytes;
    sum->small_live -= rounded.is_small ? rounded.excess_bytes : 0;
    tdelete(at, &notes, compare);
    free(at);
    atomic_fetch_sub_explicit(&note_count, 1, memory_order_relaxed);
    return rounded;
}

static bool insert(void *pointer, mend_torch_rounded rounded)
{
    note *old = find(pointer);
    if (old != NULL) { /* freed by others than PyTorch */
        drop(old);
    }
    note *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return false;
    }
    *made = (note){(uintptr_t)pointer, rounded};
    if (tsearch(made, &notes, compare) == NULL) {
        free(made);
        return false;
    }
    mend_torch_excess *sum = &sums[rounded.device];
    sum->live += rounded.excess_bytes;
    sum->small_live += rounded.is_small ? rounded.excess_bytes : 0;
    atomic_fetch_add_explicit(&note_count, 1, memory_order_relaxed);
    return true;
}

void mend_torch_rounding_add(void *pointer, mend_torch_rounded rounded)
{
    if (rounded.device < 0 || rounded.device >= MEND_TORCH_DEVICES || rounded.excess_bytes == 0) {
        return;
    }
    pthread_mutex_lock(&mutex);
    if (insert(pointer, rounded)) {
        sums[rounded.device].added += rounded.excess_bytes;
        sums[rounded.device].small_added += rounded.is_small ? rounded.excess_bytes : 0;
    }
    pthread_mutex_unlock(&mutex);
}

void mend_torch_rounding_put_back(void *pointer, mend_torch_rounded rounded)
{
    if (rounded.excess_bytes != 0) {
        pthread_mutex_lock(&mutex);
        (void)insert(pointer, rounded);
        pthread_mutex_unlock(&mutex);
    }
}

static mend_torch_rounded look(const void *pointer, bool ends)
{
    mend_torch_rounded rounded = {0};
    if (atomic_load_explicit(&note_count, memory_order_relaxed) != 0) {
        pthread_mutex_lock(&mutex);
        note *found = find(pointer);
        if (found != NULL) {
            rounded = ends ? drop(found) : found->rounded;
        }
        pthread_mutex_unlock(&mutex);
    }
    return rounded;
}

mend_torch_rounded mend_torch_rounding_of(const void *pointer)
{
    return look(pointer, false);
}

mend_torch_rounded mend_torch_rounding_end(const void *pointer)
{
    return look(pointer, true);
}

mend_torch_excess mend_torch_rounding_sum(int device)
{
    pthread_mutex_lock(&mutex);
    mend_torch_excess sum = sums[device];
    pthread_mutex_unlock(&mutex);
    return sum;
}
