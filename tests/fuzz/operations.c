/*
 * Bytes as a trial of the simulation: a few for its place, then operations, seven bytes each
 * (tests/sim/operations.h). Every byte has a meaning, so that the fuzzer goes where seeds, which
 * draw usual programs, do not. Findings are shrunk and printed as cases for
 * tests/sim/regressions.c.
 */
#include "tests/fuzz/operations.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/sim/script.h"
#include "tests/sim/shrink.h"

/* A byte chooses one of these. The same first as in trial_config_default, as far as it can be. */
static const struct {
    size_t offset;
    uint32_t values[8];
    uint32_t count;
} places[FUZZ_PLACE_BYTES] = {
#define PLACE(field, number, ...)                                                                  \
    {                                                                                              \
        offsetof(trial_config, field), {__VA_ARGS__}, number                                       \
    }
    PLACE(page_kib, 3, 4, 16, 64),
    PLACE(device_pages, 6, 64, 16, 32, 128, 300, 7),
    PLACE(chunk_pages, 6, 4, 0, 1, 2, 8, 16),
    PLACE(small_chunk_pages, 4, 1, 0, 2, 4),
    PLACE(small_request_granules, 5, 4, 1, 2, 8, 64),
    PLACE(reserve_devices, 4, 4, 1, 2, 16),
    PLACE(limit_percent, 5, 0, 50, 73, 100, 20),
    PLACE(content, 2, 1, 0),
    PLACE(no_stream_waits, 2, 0, 1),
    PLACE(vanish, 2, 0, 1),
    PLACE(prices, 3, 0, 1, 2),
    PLACE(event_delay_ns, 3, 0, 30, 300),
    PLACE(streams, 4, 1, 2, 3, 4),
    PLACE(blocking, 5, 0, 1, 2, 6, 15),
    PLACE(legacy, 2, 0, 1),
    PLACE(threads, 3, 1, 2, 3),
    PLACE(thread_streams, 2, 0, 1),
    PLACE(peer_pool, 2, 0, 1),
#undef PLACE
};

static void explain(const trial_config *config, const operation *ops, size_t count,
                    const trial_outcome *found)
{
    static operation left[FUZZ_MOST_OPERATIONS];
    static trial_outcome outcome;
    trial_config place = *config;
    memcpy(left, ops, count * sizeof(*ops));
    fprintf(stderr, "%s at step %zu: %s\n", trial_verdict_name(found->verdict), found->step,
            found->finding);
    if (trial_run_apart(&place, left, count, &outcome) && outcome.verdict != TRIAL_HOLDS) {
        trial_shrink(&place, left, &count, &outcome);
    }
    trial_print(stderr, "found", &place, left, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static operation ops[FUZZ_MOST_OPERATIONS];
    static trial_outcome outcome;
    if (size < FUZZ_PLACE_BYTES) {
        return -1;
    }
    trial_config config = trial_config_default;
    for (size_t i = 0; i < FUZZ_PLACE_BYTES; i++) {
        uint32_t *field = (uint32_t *)(void *)((char *)&config + places[i].offset);
        *field = places[i].values[data[i] % places[i].count];
    }
    /* Bytes need host memory. */
    config.content = config.device_pages * config.page_kib <= 4096 ? config.content : 0;
    size_t count = 0;
    const uint8_t *at = data + FUZZ_PLACE_BYTES;
    for (size_t left = size - FUZZ_PLACE_BYTES;
         left >= OPERATION_FIELDS && count < FUZZ_MOST_OPERATIONS; left -= OPERATION_FIELDS) {
        ops[count++] = operation_decode(at);
        at += OPERATION_FIELDS;
    }
    trial_run(&config, ops, count, &outcome);
    if (outcome.verdict != TRIAL_HOLDS) {
        explain(&config, ops, count, &outcome);
        abort();
    }
    return 0;
}
