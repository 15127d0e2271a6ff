/* For tests of streams and fences: a simulated device, the books of its streams, and two of them.
 */
#ifndef MEND_TESTS_UNIT_PHYSICAL_STREAM_RIG_H
#define MEND_TESTS_UNIT_PHYSICAL_STREAM_RIG_H

#include "memory/waits.h"
#include "mend/mend_sim.h"
#include "tests/support/kit.h"

enum { SHORT_NS = 100, LONG_NS = 1000 };

typedef struct stream_rig {
    mend_sim *sim;
    mend_driver driver; /* the device's, with a context_synchronize that a test may hook */
    const mend_driver *device;
    mend_device_info info;
    mend_process_member home;
    mend_streams streams;
    mend_stream handles[2];
    uint32_t first; /* their slots, where the books have met them */
    uint32_t second;
} stream_rig;

bool stream_rig_open(stream_rig *r);

/* The same on the first of two devices, and the books have not met the streams yet. */
bool stream_rig_open_unmet(stream_rig *r);

/* Nothing broke a rule of the driver. */
void stream_rig_close(stream_rig *r);

mend_stream stream_rig_create(stream_rig *r);
uint32_t stream_rig_find(stream_rig *r, mend_stream handle, uint32_t graph_pool);

/* Queues so much work on a stream, and frees something behind it. */
mend_stamp stream_rig_work_and_free(stream_rig *r, uint32_t stream, uint64_t duration_ns);

/* The same, and records its fence. */
mend_stamp stream_rig_work_and_close(stream_rig *r, uint32_t stream, uint64_t duration_ns);

#endif
