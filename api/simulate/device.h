/* What the driver's entry points say of a device as the runtime's do. */
#ifndef MEND_SIMULATE_DEVICE_H
#define MEND_SIMULATE_DEVICE_H

/* The value of a device's attribute, by its number in cudaDeviceAttr and CUdevice_attribute. */
int simulate_attribute(int attribute, int device);

#endif
