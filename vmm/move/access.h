/*
 * Peers: the other devices that may use a pool's memory. Mapped memory does not follow
 * cudaDeviceEnablePeerAccess; each device that may touch it is named at each mapping. Work of a
 * device that was not named breaks its context. So a pool names its own device and, as soon as the
 * process has a pool there, every other device that can reach its memory.
 *
 * Access for n devices costs the driver n times as much: there is no peer that is not in use.
 */
#ifndef MEND_MOVE_ACCESS_H
#define MEND_MOVE_ACCESS_H

#include "layout/state.h"

/* The pool's own device, and those of the config. */
void mend_access_init(mend_heap *heap);

/* The device may use the memory. `state` is held. */
bool mend_access_includes(const mend_heap *heap, int device);

/*
 * From now on the device may use all memory of the pool, what is mapped now included. Both locks
 * are held. MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST: some mappings may
 * be accessible, and new ones will not be.
 */
mend_result mend_access_add(mend_heap *heap, int device);

#endif
