/*
 * Every constant that steers where memory is placed, created and moved, with its unit and its
 * reason. What each costs and gains is measured in docs/benchmarks.md; change one only with the
 * replays of bench/figures.py before and after.
 */
#ifndef MEND_POLICY_CONSTANTS_H
#define MEND_POLICY_CONSTANTS_H

#include "base/align.h"

/* ---- pressure -----------------------------------------------------------------------------------
 */

/* Percent of the limit. Pressure is low while more than this is not reserved, unless the program
 * configured another part: then large chunks and few calls count. */
enum { LOW_PRESSURE_ROOM_PERCENT = 95 };

/* Percent of the limit. Pressure is critical once all but FULL_PERCENT was in use; or all but
 * NEAR_PERCENT, with TRAPPED_PERCENT of it trapped beside live blocks: then a broken chunk may be
 * the one that is missing. */
enum { FULL_PERCENT = 2, NEAR_PERCENT = 10, TRAPPED_PERCENT = 2 };

/* Multiples of the limit. What was in use counts until so much was allocated: longer than a step of
 * a program. */
enum { LIMITS_OF_WINDOW = 4 };

/* Multiples of the limit. What the device can give is asked again after so much was allocated:
 * longer than a step of a program. */
enum { LIMITS_UNTIL_ASKED = 4 };

/* ---- sizes of chunks ----------------------------------------------------------------------------
 */

/* A chunk of the large zone is a power of two near this part of the limit, so that a pool has some
 * hundred chunks whatever its size ... */
enum { CHUNKS_OF_LIMIT = 256 };

/* ... bytes, up to this where several requests share it, and while pressure is low up to that where
 * it is what one request lacks: larger ones save next to no calls. */
#define LARGEST_CHUNK_BYTES      (128 * MEND_MIB)
#define LARGEST_LONE_CHUNK_BYTES (256 * MEND_MIB)

/* Bytes. The same for the small zone, whose blocks pin what they lie in. */
#define SMALL_CHUNK_BYTES (8 * MEND_MIB)

/* What is created while pressure is high ends with a page of a power of two near this part of the
 * limit, or of the device if that is larger: smaller ones cost calls and gain next to nothing. */
enum { PAGES_OF_LIMIT = 4096 };

/* ---- searches -----------------------------------------------------------------------------------
 */

/* Runs that fit, looked at for one that the stream may use: bounds the time of a call. */
enum { FIT_TRIES = 24 };

/* While pressure is high: runs compared, and up to how many times the size of the request. A larger
 * run is not worth being broken for the sake of a chunk before pressure is critical. */
enum { HIGH_FIT_TRIES = 8, HIGH_FIT_SIZES = 4 };

/* Runs tried as a base before a new address is taken; and as one from which a block would end with
 * a page, which is a cheap look. */
enum { BASE_TRIES = 16, CLOSING_TRIES = 64 };

/* Of a page that a block closes, one part in so many may stay free before it. */
enum { GAPS_OF_PAGE = 4 };

/* Bytes. Small requests may live in fragments of the large zone up to this size: larger runs serve
 * large requests. */
#define LENT_RUN_BYTES (2 * MEND_MIB)

/* Searches of one request, again because others freed memory while it searched: those who go on
 * allocating and freeing must not keep it from its answer for ever. */
enum { SEARCHES = 8 };

/* ---- memory created instead of moves ------------------------------------------------------------
 */

/* Percent of what was live at most. So much more may be reserved to avoid moves: at any time, and
 * once the moves of this window have cost as much as creating everything would. */
enum { HEADROOM_PERCENT = 4, MOST_HEADROOM_PERCENT = 50 };

/* Percent of the limit that is never spent on it: the last of it is for requests that lack memory.
 */
enum { KEPT_PERCENT = 2 };

/* Bytes. To move a chunk (map it, allow access, unmap it) costs the driver about as much as to
 * create so many (docs/formats/costs.md). */
#define BYTES_WORTH_A_MOVE (32 * MEND_MIB)

/* Multiples of what is reserved. A window lasts until so much was allocated: moves that are rarer
 * are no reason to create anything. */
enum { RESERVES_OF_WINDOW = 64 };

/* ---- compactions --------------------------------------------------------------------------------
 */

/* No more than one part in so many of the limit is kept to copy to. */
enum { KEPT_PARTS_OF_LIMIT = 16 };

/* Driver calls of a compaction: for each cluster create, map twice, copy, access, and an unmap each
 * of the scratch mapping and of where its chunk was before; beside them map, access, wait, unmap.
 */
enum { CALLS_OF_CLUSTER = 7, CALLS_OF_COMPACT = 4 };

/* ---- fences of frees ----------------------------------------------------------------------------
 */

/* With several streams a fence is recorded once so many usual chunks were freed on one, so that
 * other streams need not wait for much later work; but only so often after the last request that
 * had to make room, so that the steady state makes no driver call. */
enum { CHUNKS_OF_EPOCH = 4, EARLY_FENCES_AFTER_EFFORT = 64 };

#endif
