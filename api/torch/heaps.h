/* The default pools of the devices, found again quickly: by device, and from a block's pool. */
#ifndef MEND_TORCH_HEAPS_H
#define MEND_TORCH_HEAPS_H

#include "mend/mend_devices.h"

enum { MEND_TORCH_DEVICES = 64 };

/* The default pool of a device. Results as mend_pool_for_device. */
mend_result mend_torch_heap(int device, mend_pool **heap);

/* The device of a pool that mend_torch_heap returned. MEND_ALL_DEVICES: it returned none such. */
int mend_torch_device_of(const mend_pool *heap);

#endif
