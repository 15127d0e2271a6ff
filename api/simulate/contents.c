#include "simulate/contents.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/entry.h"

/* In order of addresses, none overlaps another. Bytes outside of all ranges are RAW. */
typedef struct range {
    uint64_t begin, end;
    simulate_contents contents;
} range;

static range *ranges;
static size_t range_count, range_room;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The listener for a read of so many bytes, which returns the value to be read. */
typedef int64_t (*listener)(uint64_t bytes);
static listener told;

SIMULATE_EXPORT void mend_simulate_on_read(listener to)
{
    __atomic_store_n(&told, to, __ATOMIC_RELEASE);
}

/* The first range that ends behind the address. */
static size_t first_behind(uint64_t address)
{
    size_t low = 0;
    size_t high = range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].end > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Replaces ranges [at, at + old) by `fresh`. Without memory for it nothing is known any more. */
static void replace(size_t at, size_t old, const range *fresh, size_t count)
{
    size_t total = range_count - old + count;
    if (total > range_room) {
        size_t room = total + total / 2 + 64;
        range *larger = realloc(ranges, room * sizeof(*ranges));
        if (larger == NULL) {
            range_count = 0;
            return;
        }
        ranges = larger;
        range_room = room;
    }
    memmove(ranges + at + count, ranges + at + old, (range_count - at - old) * sizeof(*ranges));
    memcpy(ranges + at, fresh, count * sizeof(*ranges));
    range_count = total;
}

static void set(uint64_t begin, uint64_t end, simulate_contents contents)
{
    size_t at = first_behind(begin);
    size_t behind = at;
    while (behind < range_count && ranges[behind].begin < end) {
        behind++;
    }
    range fresh[3];
    size_t count = 0;
    if (behind > at && ranges[at].begin < begin) {
        fresh[count++] = (range){ranges[at].begin, begin, ranges[at].contents};
    }
    if (contents != SIMULATE_RAW) {
        fresh[count++] = (range){begin, end, contents};
    }
    if (behind > at && ranges[behind - 1].end > end) {
        fresh[count++] = (range){end, ranges[behind - 1].end, ranges[behind - 1].contents};
    }
    replace(at, behind - at, fresh, count);
}

/* The state of the bytes at an address, and how far it lasts, up to `end`. */
static simulate_contents at(uint64_t address, uint64_t end, uint64_t *until)
{
    size_t i = first_behind(address);
    if (i == range_count || ranges[i].begin > address) {
        *until = i < range_count && ranges[i].begin < end ? ranges[i].begin : end;
        return SIMULATE_RAW;
    }
    *until = ranges[i].end < end ? ranges[i].end : end;
    return ranges[i].contents;
}

void simulate_contents_set(uint64_t address, uint64_t bytes, simulate_contents contents)
{
    if (bytes > 0) {
        pthread_mutex_lock(&mutex);
        set(address, address + bytes, contents);
        pthread_mutex_unlock(&mutex);
    }
}

void simulate_contents_copy(uint64_t target, uint64_t source, uint64_t bytes)
{
    pthread_mutex_lock(&mutex);
    for (uint64_t done = 0, until = 0; done < bytes; done = until - source) {
        simulate_contents contents = at(source + done, source + bytes, &until);
        set(target + done, target + (until - source), contents);
    }
    pthread_mutex_unlock(&mutex);
}

/* `libmend fit` writes results of the host into the device's memory itself. */
SIMULATE_EXPORT void mend_simulate_set_contents(uint64_t address, uint64_t bytes, int contents)
{
    simulate_contents_set(address, bytes, (simulate_contents)contents);
}

/* The contents of which least is known, by the order of simulate_contents. */
SIMULATE_EXPORT int mend_simulate_contents(uint64_t address, uint64_t bytes)
{
    uint64_t until = address;
    simulate_contents least = SIMULATE_COPIED;
    pthread_mutex_lock(&mutex);
    while (until < address + bytes) {
        simulate_contents contents = at(until, address + bytes, &until);
        least = contents < least ? contents : least;
    }
    pthread_mutex_unlock(&mutex);
    return (int)least;
}

void simulate_contents_read(char *target, uint64_t source, uint64_t bytes)
{
    if (mend_simulate_contents(source, bytes) == SIMULATE_COPIED) {
        return;
    }
    listener to = __atomic_load_n(&told, __ATOMIC_ACQUIRE);
    int64_t value = to == NULL ? 0 : to(bytes);
    pthread_mutex_lock(&mutex);
    for (uint64_t done = 0, until = 0; done < bytes; done = until - source) {
        simulate_contents contents = at(source + done, source + bytes, &until);
        bool is_told = contents >= SIMULATE_GUESSED && contents != SIMULATE_FILLED;
        if (contents == SIMULATE_STALE || (value != 0 && !is_told)) {
            for (uint64_t i = done; i < until - source; i++) {
                target[i] = ((const char *)&value)[i % sizeof(value)];
            }
        }
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- blocks of PyTorch ----------------------------------------------------------------------- */

/* c10::reportMemoryUsageToProfiler, which each of PyTorch's allocators calls with every block that
 * it gives out (bytes > 0) or takes back: found here first, because this library is preloaded. So
 * it is known where a block begins whose bytes are another one's. PyTorch's own is called then. */
enum { DEVICE_TYPE_CUDA = 1 };
static const char report_name[] = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";

SIMULATE_EXPORT void
_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *block, int64_t bytes, size_t allocated,
                                                      size_t reserved, uint16_t device)
{
    typedef void (*report)(void *, int64_t, size_t, size_t, uint16_t);
    static _Atomic(report) original;
    if ((device & 0xff) == DEVICE_TYPE_CUDA && bytes > 0) {
        simulate_contents_set((uint64_t)(uintptr_t)block, (uint64_t)bytes, SIMULATE_STALE);
    }
    if (original == NULL) {
        void *library = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
        void *found = library != NULL ? dlsym(library, report_name) : NULL;
        report function = NULL;
        memcpy(&function, &found, sizeof(function));
        original = function;
    }
    report call = original;
    if (call != NULL) {
        call(block, bytes, allocated, reserved, device);
    }
}

/* c10::memoryProfilingEnabled, without which Mend under PyTorch does not report its blocks. */
SIMULATE_EXPORT bool _ZN3c1022memoryProfilingEnabledEv(void)
{
    return true;
}
