/*
 * Memory that several simulated devices use: chunks of other devices, of the same process or not,
 * and the holders of this one's chunks. A device that imports a chunk of another one plays another
 * process on the same GPU: the memory is charged to the device that created it, which keeps one end
 * of a connection for each holder and sees it hang up.
 */
#ifndef MEND_SIM_FOREIGN_H
#define MEND_SIM_FOREIGN_H

#include "sim/state.h"

/* What an importer has to know about a chunk. */
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

/* Whether the chunk is this device's own; and whether this device can map it. */
bool mend_sim_origin_is_own(const mend_sim *sim, const mend_sim_origin *origin);
bool mend_sim_origin_is_mappable(const mend_sim *sim, const mend_sim_origin *origin);

/* A chunk in the place of one of another device; takes over both files. `held` keeps the memory,
 * `memory_file` has its bytes (-1: no content is kept). NULL: malloc failed. */
mend_sim_chunk *mend_sim_foreign_make(mend_sim *sim, const mend_sim_origin *origin, int held,
                                      int memory_file);

/* Closes the files of all chunks of other devices. */
void mend_sim_foreign_clear(mend_sim *sim);

/* Adds a holder of a chunk, at the other end of `kept`, which becomes the device's. The caller
 * reserved a node of share_slab. */
void mend_sim_holder_add(mend_sim *sim, mend_sim_chunk *chunk, uint64_t id, int kept);

/* The chunk of the holder with this id; NULL: there is none. */
mend_sim_chunk *mend_sim_holder_find(const mend_sim *sim, uint64_t id);

void mend_sim_holders_init(mend_sim *sim);
void mend_sim_holders_sweep(mend_sim *sim); /* those that have hung up */
void mend_sim_holders_clear(
    mend_sim *sim); /* the device goes; what importers hold keeps its bytes */

#endif
