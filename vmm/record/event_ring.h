/*
 * Events on their way from a heap to a reader without a lock or a wait: if the ring is full they
 * are lost, and counted.
 *
 * The thread that holds the heap's `state` lock writes, and one thread reads.
 */
#ifndef MEND_RECORD_EVENT_RING_H
#define MEND_RECORD_EVENT_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/thread.h"
#include "mend/mend_inspect.h"

/* The capacities: powers of two. */
enum { MEND_EVENT_RING_ROOM = 65536, MEND_EVENT_RING_FAILURES = 16 };

/* Why a request failed: beside its event, so that other events stay small. */
enum { MEND_OOM_REPORT_NUMBERS = 18 };
typedef struct mend_event_failure {
    uint64_t sequence;                         /* of its event */
    uint64_t numbers[MEND_OOM_REPORT_NUMBERS]; /* of mend_oom_report, from requested_bytes on */
    char message[MEND_MESSAGE_BYTES];
} mend_event_failure;
static_assert(offsetof(mend_oom_report, owners) - offsetof(mend_oom_report, requested_bytes) ==
                  MEND_OOM_REPORT_NUMBERS * sizeof(uint64_t),
              "all of its numbers");

typedef struct mend_event_ring {
    mend_history_event *events;
    int bell; /* a file that is written when the reader must not tarry */
    _Atomic(uint64_t) written;
    _Atomic(uint64_t) read;
    _Atomic(uint64_t) lost;
    _Atomic(uint64_t) failures_written;
    _Atomic(uint64_t) failures_read;
    mend_event_failure failures[MEND_EVENT_RING_FAILURES];
} mend_event_ring;

/* The oldest one, which is gone with the next call. False: there is none. */
static inline bool mend_event_ring_take_failure(mend_event_ring *ring, mend_event_failure *failure)
{
    const uint64_t read = atomic_load_explicit(&ring->failures_read, memory_order_relaxed);
    if (read == atomic_load_explicit(&ring->failures_written, memory_order_acquire)) {
        return false;
    }
    *failure = ring->failures[read % MEND_EVENT_RING_FAILURES];
    atomic_store_explicit(&ring->failures_read, read + 1, memory_order_release);
    return true;
}

/* Why a request failed, as the thread has just noted it. Of many at once some have none. */
static inline void mend_event_ring_put_failure(mend_event_ring *ring, uint64_t sequence)
{
    const mend_thread_error *error = mend_process_failure();
    const uint64_t written = atomic_load_explicit(&ring->failures_written, memory_order_relaxed);
    if (error->oom_report.struct_size > 0 &&
        written - atomic_load_explicit(&ring->failures_read, memory_order_acquire) <
            MEND_EVENT_RING_FAILURES) {
        mend_event_failure *to = &ring->failures[written % MEND_EVENT_RING_FAILURES];
        to->sequence = sequence;
        memcpy(to->numbers, &error->oom_report.requested_bytes, sizeof(to->numbers));
        memcpy(to->message, error->message, sizeof(to->message));
        atomic_store_explicit(&ring->failures_written, written + 1, memory_order_release);
    }
}

static inline void mend_event_ring_put(mend_event_ring *ring, const mend_history_event *event)
{
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    const uint64_t held = written - atomic_load_explicit(&ring->read, memory_order_acquire);
    const bool is_refusal = event->kind == MEND_EVENT_OUT_OF_MEMORY;
    if (held == MEND_EVENT_RING_ROOM) {
        atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
    } else {
        ring->events[written % MEND_EVENT_RING_ROOM] = *event;
        atomic_store_explicit(&ring->written, written + 1, memory_order_release);
    }
    if (is_refusal) {
        mend_event_ring_put_failure(ring, event->sequence);
    }
    if (held == MEND_EVENT_RING_ROOM / 2 || is_refusal) { /* after that the program may end */
        (void)eventfd_write(ring->bell, 1);
    }
}

/* The oldest event, which stays until mend_event_ring_pass. NULL: there is none. */
static inline const mend_history_event *mend_event_ring_next(mend_event_ring *ring)
{
    const uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    return read == atomic_load_explicit(&ring->written, memory_order_acquire)
               ? NULL
               : &ring->events[read % MEND_EVENT_RING_ROOM];
}
static inline void mend_event_ring_pass(mend_event_ring *ring)
{
    const uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    atomic_store_explicit(&ring->read, read + 1, memory_order_release);
}

#endif
