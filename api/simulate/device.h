/* Queries of a device that driver and runtime answer alike. */
#ifndef MEND_SIMULATE_DEVICE_H
#define MEND_SIMULATE_DEVICE_H

/* The value of a device's attribute, by its number in cudaDeviceAttr and CUdevice_attribute. */
int simulate_attribute(int attribute, int device);

/* Entry points of the driver, for the list of them. */
int cuDeviceGetName(char *name, int bytes, int device);
int cuDeviceGetUuid_v2(char *uuid, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);

#endif
