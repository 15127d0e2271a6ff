/*
 * Peer devices: the other devices that may access a pool's memory. cudaDeviceEnablePeerAccess does
 * not affect mapped memory: each mapping names the devices that may access it, and work of any
 * other device loses its context. So a pool names its own device and, once the process has a pool
 * on another device that can reach the memory, that device too.
 *
 * Access for n devices costs the driver n times as much, so a pool names only devices in use.
 */
#ifndef MEND_MOVE_ACCESS_H
#define MEND_MOVE_ACCESS_H

#include "layout/state.h"

/* Sets the pool's own device and those of the config. */
void mend_access_init(mend_heap *heap);

/* Whether the device may access the memory. The caller holds `state`. */
bool mend_access_includes(const mend_heap *heap, int device);

/*
 * Lets the device access all memory of the pool and what it imported, existing mappings included.
 * The caller holds both locks. MEND_ERROR_OUT_OF_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST:
 * some mappings may be accessible, and new ones will not be.
 */
mend_result mend_access_add(mend_heap *heap, int device);

#endif
