/* A decorator that does not tell its caller the truth, to see that the oracle notices. */
#ifndef MEND_TESTS_MODEL_LYING_DRIVER_H
#define MEND_TESTS_MODEL_LYING_DRIVER_H

#include "driver/driver.h"

typedef enum mend_lie {
    LIE_NONE,
    LIE_EVENTS_HAVE_PASSED, /* event_query: whatever the event */
    LIE_EVENT_WAITED_FOR,   /* event_synchronize returns at once */
    LIE_CONTEXT_WAITED_FOR, /* context_synchronize returns at once */
    LIE_STREAM_WAITS,       /* stream_wait queues nothing */
    LIE_EVENT_RECORDED,     /* event_record records nothing */
    LIE_ONE_STREAM          /* stream_get_info: all streams of threads are the same */
} mend_lie;

typedef struct lying_driver {
    mend_driver table; /* the driver's face */
    const mend_driver *inner;
    mend_lie lie;
} lying_driver;

/* `inner` is borrowed. */
void lying_driver_init(lying_driver *driver, const mend_driver *inner, mend_lie lie);

#endif
