/* The driver between the pools and the device: see witness.c. */
#ifndef MEND_TESTS_SIM_WITNESS_H
#define MEND_TESTS_SIM_WITNESS_H

#include "mend/mend.h"
#include "tests/support/host_memory.h"

enum {
    WITNESS_BORN = 256,
    WITNESS_FETCHED = 1024,
    WITNESS_MAPS = 2048
}; /* the last two: more than the pages of a device */

/* A mapping that the driver made for a pool. */
typedef struct trial_mapping {
    uint64_t address;
    uint64_t size_bytes;
    mend_chunk_handle handle;
} trial_mapping;

typedef struct trial_born {
    mend_chunk_handle handle;
    uint64_t size_bytes;
} trial_born;

typedef struct trial_most {
    uint64_t chunk_bytes;
    uint64_t chunks;
    uint64_t mappings;
} trial_most;

/* A driver between the pools and the device: see witness.c. */
typedef struct trial_witness {
    mend_driver table;
    mend_unwatched_driver unwatched; /* behind it */
    struct trial *trial;
    trial_born born[WITNESS_BORN]; /* in the call under way */
    bool lost_count;               /* in this step a call created more than `born` can hold */
    size_t born_count;             /* more than there is room for: not all are known */
    mend_stream captured;          /* in that call the driver said so of it, last, or none */
    mend_chunk_handle fetched[WITNESS_FETCHED]; /* of imports, the newest ones */
    size_t fetched_count;
    uint64_t fetched_maps;            /* of such handles, since the last look */
    uint64_t fetched_releases;        /* the same */
    trial_mapping maps[WITNESS_MAPS]; /* that there are, in no order */
    size_t map_count;
    bool commit_gave_back;  /* in this step a commit released a chunk of its own: undone, or not */
    size_t doubles;         /* of these, mappings of a chunk that has another one */
    bool lost_maps;         /* there were more: nothing is known of granules */
    uint64_t undone_chunks; /* since the last look */
    uint64_t undone_bytes;
    trial_most most; /* that the device held since then */
} trial_witness;

#endif
