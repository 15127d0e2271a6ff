/*
 * Every constant that decides where memory is placed, created and moved, with its unit and its
 * reason. docs/benchmarks.md has the measurements; change one only with the replays of
 * bench/figures.py before and after.
 */
#ifndef MEND_POLICY_CONSTANTS_H
#define MEND_POLICY_CONSTANTS_H

#include "base/align.h"

/* ---- pressure -----------------------------------------------------------------------------------
 */

/* Percent of the limit. Pressure is low while more than this is not reserved, unless the program
 * configures another percentage: then large chunks and few calls are best. */
enum { LOW_PRESSURE_ROOM_PERCENT = 95 };

/* Percent of the limit. Pressure is critical once all but FULL_PERCENT was used; or all but
 * NEAR_PERCENT, with TRAPPED_PERCENT trapped beside live blocks: then a broken chunk may be the one
 * that a later request lacks. */
enum { FULL_PERCENT = 2, NEAR_PERCENT = 10, TRAPPED_PERCENT = 2 };

/* Multiples of the limit. Peaks of used bytes count until this much was allocated: longer than a
 * step of a program. */
enum { LIMITS_OF_WINDOW = 4 };

/* Multiples of the limit. The device's free memory is asked for again after this much was
 * allocated: longer than a step of a program. */
enum { LIMITS_UNTIL_ASKED = 4 };

/* ---- sizes of chunks ----------------------------------------------------------------------------
 */

/* A chunk of the large zone is a power of two near this part of the limit, so that pools of any
 * size have a few hundred chunks ... */
enum { CHUNKS_OF_LIMIT = 256 };

/* Bytes. ... up to the first size if several requests share the chunk; and, while pressure is low,
 * up to the second if one request has it for itself: larger chunks save almost no calls. */
#define LARGEST_CHUNK_BYTES      (128 * MEND_MIB)
#define LARGEST_LONE_CHUNK_BYTES (256 * MEND_MIB)

/* Bytes. The same for the small zone, whose blocks keep their chunks from being empty. */
#define SMALL_CHUNK_BYTES (8 * MEND_MIB)

/* While pressure is high, created memory is a multiple of a power of two near this part of the
 * limit, or of the device's page if that is larger: smaller units cost calls and gain almost
 * nothing. */
enum { PAGES_OF_LIMIT = 4096 };

/* ---- searches -----------------------------------------------------------------------------------
 */

/* Runs that fit, which a search compares until the stream may use one: bounds the time of a
 * call. */
enum { FIT_TRIES = 24 };

/* While pressure is high: how many runs a search compares, and up to how many times the size of the
 * request. It is not worth breaking a larger run to spare a chunk before pressure is critical. */
enum { HIGH_FIT_TRIES = 8, HIGH_FIT_SIZES = 4 };

/* How many runs a plan tries to extend before it takes a new address; and how many it looks at for
 * one from which a block would end with a page, which is a cheap check. */
enum { BASE_TRIES = 16, CLOSING_TRIES = 64 };

/* If a block ends with a page, at most this part of a page may stay free before the block. */
enum { GAPS_OF_PAGE = 4 };

/* Bytes. Small requests may use runs of the large zone up to this size; larger runs serve large
 * requests. */
#define LENT_RUN_BYTES (2 * MEND_MIB)

/* The most searches of one request. A search is repeated if other threads freed memory meanwhile;
 * threads that keep allocating and freeing must not delay its answer for ever. */
enum { SEARCHES = 8 };

/* ---- memory created instead of moves ------------------------------------------------------------
 */

/* Percent of the peak of live bytes. How much more may be reserved to avoid moves: always, and
 * after the moves of this window have cost as much as creating everything would. */
enum { HEADROOM_PERCENT = 4, MOST_HEADROOM_PERCENT = 50 };

/* Percent of the limit that headroom never uses: it is for requests that lack memory. */
enum { KEPT_PERCENT = 2 };

/* Bytes. Moving a chunk (map, set_access, unmap) costs the driver about as much as creating this
 * many bytes (docs/formats/costs.md). */
#define BYTES_WORTH_A_MOVE (32 * MEND_MIB)

/* Multiples of the reserved bytes. A window ends after this much was allocated: rarer moves are no
 * reason to create memory. */
enum { RESERVES_OF_WINDOW = 64 };

/* ---- compactions --------------------------------------------------------------------------------
 */

/* At most this part of the limit is kept free to copy to. */
enum { KEPT_PARTS_OF_LIMIT = 16 };

/* Driver calls of a compaction. For each cluster: create, map twice, copy, set_access, and unmap of
 * the scratch mapping and of the old place of its chunk. For all: map, set_access, wait, unmap. */
enum { CALLS_OF_CLUSTER = 7, CALLS_OF_COMPACT = 4 };

/* ---- fences of frees ----------------------------------------------------------------------------
 */

/* With several streams, a fence is recorded when this many usual chunks were freed on one stream,
 * so that other streams need not wait for later work of it. But only this many times after a
 * request that had to make room: so the steady state makes no driver call. */
enum { CHUNKS_OF_EPOCH = 4, EARLY_FENCES_AFTER_EFFORT = 64 };

#endif
