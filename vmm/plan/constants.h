/*
 * Every constant that decides where memory is placed, created and moved, with its unit and its
 * reason. Measurements: bench/results/simulated.md. Change one only with the replays of
 * bench/figures.py before and after.
 */
#ifndef MEND_PLAN_CONSTANTS_H
#define MEND_PLAN_CONSTANTS_H

#include "base/align.h"

/* ---- strategy -------------------------------------------------------------------------------- */

/*
 * X(strategy, room, chunks, largest): the meaning of each strategy, from few driver calls to little
 * memory. room percent of the limit. Pressure is low while more than this is not reserved: then
 * large
 *          chunks and few calls are best
 * chunks a chunk of the large zone is a power of two near this part of the limit, so that pools
 *          of any size have a few hundred chunks ...
 * largest bytes. ... up to this size: larger chunks save almost no calls
 */
#define MEND_STRATEGY(X)                                                                           \
    X(1, 50, 128, 512 * MEND_MIB)                                                                  \
    X(2, 75, 256, 256 * MEND_MIB)                                                                  \
    X(3, 75, 512, 128 * MEND_MIB)                                                                  \
    X(4, 97, 1024, 32 * MEND_MIB)                                                                  \
    X(5, 98, 4096, 8 * MEND_MIB)
enum { DEFAULT_STRATEGY = 3 };

/* ---- pressure -------------------------------------------------------------------------------- */

/* Percent of the limit. A program has needed nearly all of it once all but NEAR_PERCENT was in use
 * or all but CLOSE_PERCENT was live: then blocks lie as closely as they can. */
enum { NEAR_PERCENT = 10, CLOSE_PERCENT = 5 };

/* Percent of the limit, and part of a request. Once TRAPPED_PERCENT was trapped while all but
 * EARLY_PERCENT was used, an empty chunk is broken only if the block leaves at most
 * WASTE_OF_REQUEST of its own size free. Nearly all is used only when it is too late. */
enum { TRAPPED_PERCENT = 2, EARLY_PERCENT = 25, WASTE_OF_REQUEST = 4 };

/* While this part of the limit is not reserved, calls count more than bytes: a search spares no
 * empty chunk, and large requests have larger chunks. */
enum { AMPLE_OF_LIMIT = 2 };

/* Multiples of the limit. Peaks of used bytes, and the driver's report of free memory, are valid
 * until this much was allocated: longer than a step of a program. */
enum { LIMITS_OF_WINDOW = 2 };

/* Chunks of one size that are searched for the smallest runs, beside the needed number. A pool has
 * a few hundred chunks, and one of ranges may have a million, which no request looks at.
 */
enum { CHUNKS_COMPARED = 512 };

/* ---- sizes of chunks ------------------------------------------------------------------------- */

/* Part of the device's memory: others may hold so much, and chunks are as large as without them. */
enum { BESIDE_A_POOL = 8 };

/* Multiples of a usual chunk. Blocks with a sleep tag of their thread lie in chunks up to this
 * size: each chunk costs calls at each sleep and at each wake. */
enum { LARGER_IF_IT_SLEEPS = 4 };

/* Part of a sleep tag's memory in chunks: so much is created for it beside the need of a block, up
 * to a usual chunk, because no other tag uses it. */
enum { SHARE_OF_TAG = 4 };

/* Chunks with the highest addresses: no more are looked at for the memory of a tag. */
enum { TAG_LOOKS = 512 };

/* Multiples. A pool that has slept creates its memory again after each sleep, so its chunks are
 * this much larger from then on. */
enum { LARGER_IF_SLEPT = 2 };

/* Trims in a row, part of the reserved memory. Once so many gave that much back, each within
 * EMPTYING_LIMITS limits of allocated bytes, the program is taken to empty the pool in each step.
 * Then new memory lies in shared chunks of EMPTIED_CHUNK_BYTES (at most that part of the limit),
 * while EARLY_PERCENT of the limit are not reserved. Smaller ones cost calls in each step, larger
 * ones keep more. */
enum {
    EMPTYINGS = 2,
    EMPTIED_OF_RESERVED = 16,
    EMPTYING_LIMITS = 4,
    EMPTIED_CHUNKS_OF_LIMIT = 128
};
#define EMPTIED_CHUNK_BYTES (24 * MEND_MIB)

/* Bytes. A chunk of the small zone, whose blocks keep their chunks from being empty, is smaller if
 * one of the large zone is. */
#define SMALL_CHUNK_BYTES (8 * MEND_MIB)

/* Bytes. Requests up to this size use the small zone. */
#define SMALL_REQUEST_BYTES MEND_MIB

/* Small requests may use runs of the large zone up to this size. Larger runs serve large
 * requests. */
#define LENT_RUN_BYTES (SMALL_CHUNK_BYTES / 4)

/* While pressure is high, created memory is a multiple of this part of a usual chunk, or of the
 * device's page if that is larger. Smaller units cost calls and gain almost nothing. */
enum { PAGES_OF_CHUNK = 4 };

/* ---- searches -------------------------------------------------------------------------------- */

/* Runs that a search compares, runs that a plan tries to extend, spans of a run that are looked at
 * for a place between its ends: bounds the time of a call. Fences of frees after a request under
 * `grow`, so that the steady state makes no driver call. */
enum { SEARCH_TRIES = 24 };

/* Streams. With more, small blocks lie between blocks that others freed before the pool asks the
 * driver about fences, because it would ask about all. */
enum { MANY_STREAMS = 8 };

/* ---- memory created instead of moves --------------------------------------------------------- */

/* Percent of the peak of live bytes. How much more may be reserved to avoid moves. */
enum { HEADROOM_PERCENT = 4 };

/* Part of the peak of live bytes: how much more than that, while the program has not needed nearly
 * all of the limit. Without this bound a recording that names no stream reserves 24 times its peak.
 * One that names its streams is the same. */
enum { MORE_OF_LIVE = 2 };

/* ---- what only the context covers ------------------------------------------------------------ */

/* Bytes, and part of the live ones. Before the pool grows, it asks for memory freed without a
 * stream, or on streams out of reach, if that is more than either. With the first, programs that
 * free little so never need the context's event. */
#define UNFENCED_BYTES (32 * MEND_MIB)
enum { UNFENCED_OF_LIVE = 8 };

/* Multiples of that. Once that much waits, a request waits for it on the device before the pool
 * grows, or stalls the CPU: growth would end only with the device's memory. */
enum { WAIT_OF_UNFENCED = 4 };

/* Before the pool grows above growth_percent, a stream waits for memory freed by others, in so many
 * tries, each for fences half as young as the one before. A wait for the latest would run one
 * stream behind the other. */
enum { AGES_OF_FENCES = 7 };

/* ---- fences of frees ------------------------------------------------------------------------- */

/* With several streams, a fence is recorded when this many usual chunks were freed on one stream,
 * so that other streams need not wait for later work of it. */
enum { CHUNKS_OF_EPOCH = 8 };

#endif
