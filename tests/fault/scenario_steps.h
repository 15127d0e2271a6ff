/* Steps that many scenarios begin with, and their units. */
#ifndef MEND_TESTS_FAULT_SCENARIO_STEPS_H
#define MEND_TESTS_FAULT_SCENARIO_STEPS_H

#include "tests/fault/scenario.h"

#define KIB(n)    ((n)*MEND_KIB)
#define CHUNKS(n) KIB(64 * (n)) /* of the large zone. A small chunk has 16 KiB, a page 4 KiB */

#define STEPS(...)                                                                                 \
    .setup = (const operation[]){__VA_ARGS__},                                                     \
    .setup_count = sizeof((const operation[]){__VA_ARGS__}) / sizeof(operation)

/* clang-format off */

/* Blocks of three chunks and of one in one segment: nothing can be mapped behind the first. */
#define RUN_WITHOUT_GROWTH(large, small)                                                           \
    {ALLOC, large, 0, CHUNKS(4)}, {FREE, large, 0, 0}, {ALLOC, large, 0, CHUNKS(3)},               \
    {ALLOC, small, 0, CHUNKS(1)}

/* The same with one chunk. */
#define CHUNK_WITHOUT_GROWTH(first, second)                                                        \
    {ALLOC, first, 0, CHUNKS(2)}, {FREE, first, 0, 0}, {ALLOC, first, 0, CHUNKS(1)},               \
    {ALLOC, second, 0, CHUNKS(1)}

/* Eight blocks in two chunks, of which three stay: one in the first, two apart in the second. */
#define TWO_CHUNKS_OF_HOLES                                                                        \
    {ALLOC, 0, 0, CHUNKS(2)}, {FREE, 0, 0, 0}, {ALLOC, 0, 0, KIB(16)}, {ALLOC, 1, 0, KIB(16)},     \
    {ALLOC, 2, 0, KIB(16)}, {ALLOC, 3, 0, KIB(16)}, {ALLOC, 4, 0, KIB(16)},                        \
    {ALLOC, 5, 0, KIB(16)}, {ALLOC, 6, 0, KIB(16)}, {ALLOC, 7, 0, KIB(16)}, {FREE, 0, 0, 0},       \
    {FREE, 1, 0, 0}, {FREE, 3, 0, 0}, {FREE, 5, 0, 0}, {FREE, 7, 0, 0}

/* A chunk that is too large for the next request, and a limit that leaves less than a chunk. Ends
 * of less than a page are trapped behind three blocks, and a request that waits for the chunk has
 * seen that: the pressure is critical. */
#define ONE_CHUNK_AT_THE_LIMIT(stream)                                                             \
    {ALLOC, 0, 1 - (stream), CHUNKS(1)}, {ALLOC, 1, 0, CHUNKS(2)}, {ALLOC, 5, 0, CHUNKS(2)},       \
    {ALLOC, 2, 0, CHUNKS(1)}, {FREE, 2, 0, 0}, {ALLOC, 2, 0, CHUNKS(1) - 3584}, {FREE, 5, 0, 0},   \
    {ALLOC, 5, 0, CHUNKS(2) - 3584}, {FREE, 1, 0, 0}, {ALLOC, 1, 0, CHUNKS(2) - 3584},             \
    {LIMIT, 0, 0, KIB(325)}, {USE, 0, 1 - (stream), 0}, {FREE, 0, 1 - (stream), 0},                \
    {ALLOC, 0, stream, CHUNKS(1)}, {USE, 0, stream, 0}, {FREE, 0, stream, 0}

/* clang-format on */

#endif
