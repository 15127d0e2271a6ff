/* The one simulated machine of the process: as many devices as the environment says, each with
 * memory of real bytes. It is made by the first call that needs a device, and lives as long as the
 * process. */
#ifndef MEND_SIMULATE_MACHINE_H
#define MEND_SIMULATE_MACHINE_H

#include <stdbool.h>

#include "driver/driver.h"
#include "mend/mend_sim.h"

enum { SIMULATE_MOST_DEVICES = 16 };

typedef struct simulate_machine {
    mend_sim *sim;
    const mend_driver *driver;
    int device_count;
    uint64_t memory_bytes; /* of each device */
    mend_context contexts[SIMULATE_MOST_DEVICES];
} simulate_machine;

/* The number of devices that the program may see, without making the machine. 0: the environment is
 * wrong, or hides them all. */
int simulate_device_count(void);

/* A whole number from 1 to `most` in a variable of the environment. `usual` where it is not set. 0:
 * it is neither, which was said. */
uint64_t simulate_read_number(const char *name, uint64_t usual, uint64_t most);

/* Whether memory can be shared by fabric handles: MEND_SIMULATE_FABRIC=1. */
bool simulate_has_fabric(void);

/* The program has called the runtime, or cuInit: until then the driver answers NOT_INITIALIZED. */
void simulate_initialize(void);
bool simulate_is_initialized(void);

/* The device that is current in this thread. */
int simulate_current(void);

/* Makes another device current in this thread. INVALID_DEVICE. */
int simulate_select(int device);

/* The begin of almost every call: the machine exists, and the thread's device is current in it.
 * Returns a code of cudaError_t: NOT_INITIALIZED in a child of fork, as CUDA answers there, or
 * where the environment is wrong. NO_DEVICE. OUT_OF_MEMORY. */
int simulate_enter(void);

/* The same, and INVALID_VALUE if the arguments are not sound. */
int simulate_enter_if(bool is_sound);

/* The machine. Nothing until one of these has answered SUCCESS. */
extern simulate_machine simulate_here;

/* A call of the table of its devices. */
#define SIMULATE_DRIVER(call, ...) simulate_here.driver->call(simulate_here.driver, __VA_ARGS__)

#endif
