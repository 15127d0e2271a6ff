/*
 * Fresh memory: what nothing has written holds poison, so that work that expects zeros is found.
 * The bytes of chunks lie in a sparse file, in which untouched pages are holes. Work that is about
 * to read a hole, or to write a part of one, fills it first; so memory that nobody touches costs
 * none. The host's own accesses to device addresses fill nothing: a page that they touch first has
 * zeros. Does nothing if the device keeps no content, or is to have zeros.
 */
#ifndef MEND_SIM_FRESH_H
#define MEND_SIM_FRESH_H

#include "sim/state.h"

enum { MEND_SIM_POISON = 0xdb };

/* Before an item that was judged runs. */
void mend_sim_fresh_fill_for(mend_sim *sim, const mend_sim_item *item);

/* All of a chunk, before another process or the host sees it. */
void mend_sim_fresh_fill_chunk(mend_sim *sim, const mend_sim_chunk *chunk);

#endif
