/*
 * Chunks shared by fabric handles: 64 bytes that name a chunk to every process. A handle holds no
 * memory, unlike a file descriptor: it is good as long as the chunk exists. An importer holds the
 * chunk, whatever becomes of the exporter's own handle.
 *
 * So that importers in other processes find the chunk, the device listens at a socket of its own
 * for each exported one. An importer connects, and needs no answer: what it has to know is in the
 * handle, the bytes are in the exporter's file, and its end of the connection holds the memory.
 * The device accepts at its next call.
 */
#ifndef MEND_SIM_FABRIC_H
#define MEND_SIM_FABRIC_H

#include "sim/state.h"

void mend_sim_fabric_init(mend_sim *sim);
void mend_sim_fabric_clear(mend_sim *sim);

/* Takes in those who have connected since the last time. */
void mend_sim_fabric_sweep(mend_sim *sim);

/* Writes the handle of a chunk; always the same one. OUT_OF_MEMORY: no file descriptor. */
mend_status mend_sim_fabric_export(mend_sim *sim, mend_sim_chunk *chunk, void *out);

/* The chunk that a handle names. INVALID_VALUE: the chunk is gone, or is of a device that this one
 * is not like. Bytes that are no handle are a violation. */
mend_status mend_sim_fabric_import(mend_sim *sim, const void *shared, mend_sim_chunk **chunk);

#endif
