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
 * X(strategy, chunks, largest, headroom): the meaning of each strategy, from few driver calls to
 * little memory. The default is the middle one.
 * chunks   a chunk of the large zone is a power of two near this part of the limit, so that pools
 *          of any size have a few hundred chunks ...
 * largest  bytes. ... up to this size: larger chunks save almost no calls
 * headroom percent of the peak of live bytes. So much more may be reserved to avoid moves. Random
 *          sizes need 84 % more, and would move for ever below. Without a bound a recording that
 *          names no stream reserves 24 times its peak
 */
#define MEND_STRATEGY(X)                                                                           \
    X(1, 128, 512 * MEND_MIB, 100)                                                                 \
    X(2, 256, 256 * MEND_MIB, 100)                                                                 \
    X(3, 512, 128 * MEND_MIB, 100)                                                                 \
    X(4, 1024, 32 * MEND_MIB, 100)                                                                 \
    X(5, 4096, 8 * MEND_MIB, 4)

/* ---- pressure -------------------------------------------------------------------------------- */

/* Percent of the limit. Pressure is low while more than this is not reserved: then large chunks and
 * few calls are best, and no search spares empty chunks. */
enum { LOW_PRESSURE_PERCENT = 50 };

/* Percent of the limit. Once all but this was in use, blocks lie as closely as they can: headroom
 * is that of the last strategy. A graph pool gets no headroom from it at all. */
enum { NEAR_PERCENT = 10 };

/* Part of a need that may lie free beside it: of a request in an empty chunk that it breaks, of the
 * memory of a sleep tag that is created for it, of a limit that counts as used. In small pools also
 * of a request whose chunks are larger. */
enum { SPARE_PART = 4 };

/* Percent of the limit. Once this much was trapped while all but SPARE_PART was used, empty chunks
 * are spared. Nearly all is used only when it is too late. */
enum { TRAPPED_PERCENT = 2 };

/* Multiples of the limit. Peaks of used bytes, and the driver's report of free memory, are valid
 * until this much was allocated: longer than a step of a program. */
enum { LIMITS_OF_WINDOW = 2 };

/* Chunks that a search looks at: of one size for the smallest runs, beside the needed number, and
 * at the highest addresses for the memory of a sleep tag. A pool has a few hundred chunks, and one
 * of ranges may have a million, which no request looks at. */
enum { CHUNKS_COMPARED = 512 };

/* ---- sizes of chunks ------------------------------------------------------------------------- */

/* Part of the device's memory: others may hold so much, and chunks are as large as without them. */
enum { BESIDE_A_POOL = 8 };

/* Multiples of a usual chunk, of those that cost fewer calls: where one request has them for
 * itself, and in a pool that has slept, which creates its memory again after each sleep. Chunks of
 * a sleep tag are larger twice, because each costs calls at each sleep and at each wake. */
enum { LARGER = 2 };

/* Usual chunks. While pressure is high a request of so many has larger ones: its next one has fewer
 * to move, and what its ends trap is little beside it. */
enum { LARGE_REQUEST = 64 };

/* Trims in a row, each within as many windows. Then the program is taken to empty the pool in each
 * step, and new memory lies in shared chunks of EMPTIED_CHUNK_BYTES, while SPARE_PART of the limit
 * is not reserved. Smaller ones cost calls in each step, larger ones keep more. */
enum { EMPTYINGS = 2 };
#define EMPTIED_CHUNK_BYTES (24 * MEND_MIB)

/* Bytes. A chunk of the small zone, whose blocks keep their chunks from being empty, is smaller if
 * one of the large zone is. */
#define SMALL_CHUNK_BYTES (8 * MEND_MIB)

/* Bytes. Requests up to this size use the small zone. */
#define SMALL_REQUEST_BYTES MEND_MIB

/* While pressure is high, created memory is a multiple of this part of a usual chunk, or of the
 * device's page if that is larger. Smaller units cost calls and gain almost nothing. Small requests
 * may use runs of the large zone up to this part of a small chunk. Larger runs serve large ones. */
enum { PAGES_OF_CHUNK = 4 };

/* ---- searches -------------------------------------------------------------------------------- */

/* Runs that a search compares, runs that a plan tries to extend, spans of a run that are looked at
 * for a place between its ends: bounds the time of a call. Fences of frees after a request under
 * `grow`, so that the steady state makes no driver call. */
enum { SEARCH_TRIES = 24 };

/* Streams. With more, small blocks lie between blocks that others freed before the pool asks the
 * driver about fences, because it would ask about all. */
enum { MANY_STREAMS = 8 };

/* ---- what only the context covers ------------------------------------------------------------ */

/* Bytes, and part of the live ones. Before the pool grows, it asks for memory freed without a
 * stream, or on streams out of reach, if that is more than either. With the first, programs that
 * free little so never need the context's event. */
#define UNFENCED_BYTES (32 * MEND_MIB)
enum { UNFENCED_OF_LIVE = 8 };

/* Multiples of that. Once that much waits, a request waits for it on the device before the pool
 * grows, or stalls the CPU: growth would end only with the device's memory. */
enum { WAIT_OF_UNFENCED = 4 };

/* ---- fences of frees ------------------------------------------------------------------------- */

/* With several streams, a fence is recorded when this many usual chunks were freed on one stream,
 * so that other streams need not wait for later work of it. */
enum { CHUNKS_OF_EPOCH = 8 };

#endif
