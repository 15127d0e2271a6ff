/* Exports of a device to other simulated devices, and its imports. */
#ifndef MEND_SIM_SHARES_H
#define MEND_SIM_SHARES_H

#include "sim/state.h"

void mend_sim_shares_init(mend_sim *sim);
void mend_sim_shares_clear(mend_sim *sim);

/* Releases memory whose exports were closed, and whose importers ended, since the last time. */
void mend_sim_shares_sweep(mend_sim *sim);

/* ---- foreign.c ------------------------------------------------------------------------------- */

/* The data about a chunk for an importer. */
typedef struct mend_sim_origin {
    uint64_t mark;
    uint64_t process; /* this and the next: which simulated device has the chunk */
    uint64_t sim;
    uint64_t id; /* of the export */
    uint64_t size_bytes;
    uint64_t file_offset;
    uint64_t page_bytes;
    int64_t device;
    uint64_t has_content; /* there is a file with the bytes */
} mend_sim_origin;

/* Describes a chunk of this device for a new export, which gets the next id. */
mend_sim_origin mend_sim_origin_of(const mend_sim *sim, const mend_sim_chunk *chunk, uint64_t mark);

/* Whether the chunk is this device's own, and whether this device can map it. */
bool mend_sim_origin_is_own(const mend_sim *sim, const mend_sim_origin *origin);
bool mend_sim_origin_is_mappable(const mend_sim *sim, const mend_sim_origin *origin);

/* A chunk in the place of one of another device. Takes over both files. `held` keeps the memory,
 * `memory_file` has its bytes (-1: no content is kept). NULL: malloc failed. */
mend_sim_chunk *mend_sim_foreign_make(mend_sim *sim, const mend_sim_origin *origin, int held,
                                      int memory_file);

/* Closes the files of all chunks of other devices. */
void mend_sim_foreign_clear(mend_sim *sim);

/* Adds a holder of a chunk, at the other end of `kept`, which becomes the device's. The caller
 * reserved a node of share_slab. */
void mend_sim_holder_add(mend_sim *sim, mend_sim_chunk *chunk, uint64_t id, int kept);

/* The chunk of the holder with this id. NULL: there is none. */
mend_sim_chunk *mend_sim_holder_find(const mend_sim *sim, uint64_t id);

void mend_sim_holders_init(mend_sim *sim);
void mend_sim_holders_sweep(mend_sim *sim); /* closed connections */
void mend_sim_holders_clear(
    mend_sim *sim); /* the device ends. Memory of importers keeps its bytes */

/* ---- fabric.c -------------------------------------------------------------------------------- */

void mend_sim_fabric_init(mend_sim *sim);
void mend_sim_fabric_clear(mend_sim *sim);

/* Accepts importers that have connected since the last time. */
void mend_sim_fabric_sweep(mend_sim *sim);

/* Writes the handle of a chunk. Always the same one. OUT_OF_MEMORY: no file descriptor. */
mend_status mend_sim_fabric_export(mend_sim *sim, mend_sim_chunk *chunk, void *out);

/* The chunk that a handle names. INVALID_VALUE: the chunk is gone, or is of a device that this one
 * is not like. Bytes that are no handle are a violation. */
mend_status mend_sim_fabric_import(mend_sim *sim, const void *shared, mend_sim_chunk **chunk);

#endif
