/*
 * A libcuda.so.1 for tests: the entry points of the CUDA driver over a table of the door, so that
 * driver/cuda.c itself runs without a GPU. Tests find it by LD_LIBRARY_PATH, load it as Mend does,
 * and look fake_cuda_get up with dlsym.
 */
#ifndef MEND_TESTS_FAKE_CUDA_H
#define MEND_TESTS_FAKE_CUDA_H

#include "driver/cuda_abi.h"
#include "mend/mend_sim.h"

/* Features that a test may turn off. All on at first. */
/* The order of a graph under capture, as a test makes it up. Nodes are numbers from 1. 0 is none.
 */
typedef struct fake_cuda_order {
    mend_stream streams[2];
    uintptr_t ends[2][2];        /* predecessors of the next node of each */
    const uintptr_t (*after)[2]; /* by node: its predecessors */
} fake_cuda_order;

typedef struct fake_cuda_switches {
    mend_status init_status;      /* of cuInit */
    const char *missing_function; /* functions that cuGetProcAddress does not find. NULL: nothing */
    bool virtual_memory_claimed;  /* the device's attribute */
    bool everything_claimed;      /* the attributes of sharing, RDMA and multicast */
    mend_status create_refusal; /* of cuMemCreate with share types or RDMA. 0: as the table does */
    bool fabric_is_refused;     /* by cuMemCreate, as without IMEX channels. The attribute stays */
    uint64_t larger_page_bytes; /* granularity of chunks with share types. 0: the same */
    bool mappings_forget;       /* each mapping has memory of its own. At first as the environment's
                                 * MEND_FAKE_CUDA_FORGETS is set */
    int more_devices;           /* besides device 0. They can be named, not opened */
    uint64_t peers;             /* bit n: device n can reach the memory of device 0 */
    bool is_integrated;         /* the attribute */
    mend_status register_refusal; /* of cuMemHostRegister and its end. 0: none */
    const fake_cuda_order *order; /* NULL: streams and nodes come after nothing */
} fake_cuda_switches;

typedef struct fake_cuda {
    mend_sim *sim;             /* behind the entry points */
    const mend_driver *driver; /* its table */
    fake_cuda_switches switches;
    bool was_initialized;     /* by cuInit */
    uint64_t modules;         /* loaded and not unloaded */
    uint64_t user_objects;    /* created and not destroyed */
    uint64_t registered;      /* by cuMemHostRegister */
    uint64_t pool_base_bytes; /* taken of the device when the pool's record was reset */
    uint64_t pool_high_bytes; /* the most that was taken after an allocation since */
} fake_cuda;

/* The one object behind the entry points. Created at first use. */
typedef fake_cuda *(*fake_cuda_find)(void);

#endif
