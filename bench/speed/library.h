/*
 * Mend as its users load it: the shared libraries, at run time. So the results are of the shipped
 * library, two builds can run side by side, and callgrind can tell Mend from the simulated device.
 */
#ifndef MEND_SPEED_LIBRARY_H
#define MEND_SPEED_LIBRARY_H

#include <stdbool.h>

#include "mend/mend_devices.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_sim.h"

/* X(function): functions of libmend, and of libmend_sim. */
#define SPEED_MEND_CALLS(X)                                                                        \
    X(mend_pool_create)                                                                            \
    X(mend_pool_destroy)                                                                           \
    X(mend_alloc)                                                                                  \
    X(mend_free)                                                                                   \
    X(mend_record_stream)                                                                          \
    X(mend_unregister_stream)                                                                      \
    X(mend_get_block_info)                                                                         \
    X(mend_validate)                                                                               \
    X(mend_trim)                                                                                   \
    X(mend_get_stats)                                                                              \
    X(mend_get_last_error)
/* The calls for hooks: NULL in an older library. */
#define SPEED_DEVICE_CALLS(X)                                                                      \
    X(mend_set_default_config)                                                                     \
    X(mend_pool_for_device)                                                                        \
    X(mend_device_alloc)                                                                           \
    X(mend_device_free)
#define SPEED_SIM_CALLS(X)                                                                         \
    X(mend_sim_create)                                                                             \
    X(mend_sim_destroy)                                                                            \
    X(mend_sim_driver)                                                                             \
    X(mend_sim_stream_create)

typedef struct speed_library {
#define X(function) __typeof__(function) *function;
    SPEED_MEND_CALLS(X)
    SPEED_DEVICE_CALLS(X)
    SPEED_SIM_CALLS(X)
#undef X
} speed_library;

/* Fills the pointer to a function at `call` with a symbol's address. False: there is none. */
bool speed_find(void *handle, const char *name, void *call);

/* Loads both from `folder`. NULL: from where this build has made them. They stay loaded. False: the
 * reason was printed on standard error. */
bool speed_library_open(const char *folder, speed_library *library);

#endif
