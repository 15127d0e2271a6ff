/*
 * Events on their way from a heap to a reader that takes no lock and makes nobody wait: those that
 * find the ring full are lost, and counted.
 *
 * Who holds the heap's `state` lock writes; one thread reads.
 */
#ifndef MEND_BASE_EVENT_RING_H
#define MEND_BASE_EVENT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>

#include "mend/mend_views.h"

/* How many there is room for: a power of two. */
enum { MEND_EVENT_RING_ROOM = 65536 };

typedef struct mend_event_ring {
    mend_history_event *events;
    int bell;             /* a file that is written when the reader must not tarry */
    _Atomic(bool) is_due; /* it is to be written, by who has released the lock */
    _Atomic(uint64_t) written;
    _Atomic(uint64_t) read;
    _Atomic(uint64_t) lost;
} mend_event_ring;

static inline void mend_event_ring_put(mend_event_ring *ring, const mend_history_event *event)
{
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    const uint64_t held = written - atomic_load_explicit(&ring->read, memory_order_acquire);
    if (held == MEND_EVENT_RING_ROOM) {
        atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
        return;
    }
    ring->events[written % MEND_EVENT_RING_ROOM] = *event;
    atomic_store_explicit(&ring->written, written + 1, memory_order_release);
    if (held == MEND_EVENT_RING_ROOM / 2 || event->kind == MEND_EVENT_OUT_OF_MEMORY) {
        /* After a refusal the program may end. */
        atomic_store_explicit(&ring->is_due, true, memory_order_relaxed);
    }
}

/* A system call where one is due: no lock is held. */
static inline void mend_event_ring_tell(mend_event_ring *ring)
{
    if (atomic_load_explicit(&ring->is_due, memory_order_relaxed) &&
        atomic_exchange_explicit(&ring->is_due, false, memory_order_relaxed)) {
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
