#include "lab/replay/explain_text.h"

#include <stdio.h>

#include "base/align.h"
#include "lab/replay/explain.h"
#include "lab/support/capacity.h"
#include "pool/pool.h"

#define MIB(bytes) ((double)(bytes) / (double)MEND_MIB)

enum { TEXT_BYTES = 64, SHOWN_EMPTIEST = 4 };

static const char *const zone_names[MEND_ZONES_OF_BLOCKS] = {"small zone", "large zone"};
static const char *const place_names[MEND_FREE_PLACES] = {
    "empty chunks", "edges of partly used chunks", "holes of partly used chunks"};
static const char *const reason_names[MEND_FREE_REASONS] = {
    "usable, idle", "usable, own stream", "waits for other streams", "waits for the context",
    "held for graphs"};
static const char *const count_names[MEND_EXPLAIN_OWNER_COUNTS] = {"1 block", "2 blocks",
                                                                   "3 or 4 blocks", "more blocks"};
static const char *const moment_names[MEND_MOMENT_COUNT] = {"peak reserved", "peak waste",
                                                            "failure"};
static const char *const cause_names[MEND_CAUSE_COUNT] = {
#define X(name, meaning) meaning,
    MEND_REPLAY_CAUSES(X)
#undef X
};

/* ---- memory ---------------------------------------------------------------------------------- */

/* One line: a figure for each moment, in MiB and in percent of the peak of live bytes. */
typedef struct line {
    char what[2 * TEXT_BYTES];
    uint64_t bytes[MEND_MOMENT_COUNT];
    uint64_t chunks[MEND_MOMENT_COUNT];
    bool has_chunks;
} line;

static void print_line(FILE *out, const mend_replay_result *result, const line *l)
{
    double peak_bytes = (double)mend_max_u64(result->peak_live_bytes, 1);
    uint64_t sum = 0;
    for (size_t i = 0; i < MEND_MOMENT_COUNT; i++) {
        sum += l->bytes[i];
    }
    if (sum == 0) {
        return;
    }
    fprintf(out, "    %-64s", l->what);
    for (size_t i = 0; i < MEND_MOMENT_COUNT; i++) {
        if (!result->explanation->moments[i].applies) {
            continue;
        }
        char chunks[24] = "";
        if (l->has_chunks) {
            snprintf(chunks, sizeof(chunks), "%llu", (unsigned long long)l->chunks[i]);
        }
        fprintf(out, "%6s%10.1f %7.2f %%", chunks, MIB(l->bytes[i]),
                100 * (double)l->bytes[i] / peak_bytes);
    }
    fputc('\n', out);
}

static void print_head(FILE *out, const mend_replay_explanation *explanation)
{
    fprintf(out, "  %-66s", "memory: chunks, MiB, of the peak of live bytes");
    for (size_t i = 0; i < MEND_MOMENT_COUNT; i++) {
        const mend_replay_moment *moment = &explanation->moments[i];
        if (moment->applies) {
            char text[TEXT_BYTES];
            snprintf(text, sizeof(text), "%s @%llu", moment_names[i],
                     (unsigned long long)moment->event);
            fprintf(out, "%26s", text);
        }
    }
    fputc('\n', out);
}

static void print_free(FILE *out, const mend_replay_result *result)
{
    const mend_replay_moment *moments = result->explanation->moments;
    for (int zone = MEND_ZONES_OF_BLOCKS - 1; zone >= 0; zone--) {
        for (int place = 0; place < MEND_FREE_PLACES; place++) {
            for (int reason = 0; reason < MEND_FREE_REASONS; reason++) {
                line l = {0};
                snprintf(l.what, sizeof(l.what), "%s, %s: %s", zone_names[zone], place_names[place],
                         reason_names[reason]);
                for (size_t i = 0; i < MEND_MOMENT_COUNT; i++) {
                    l.bytes[i] = moments[i].state.free_bytes[zone][place][reason];
                }
                print_line(out, result, &l);
            }
        }
    }
}

/* One kind of sums over partly used chunks. */
typedef const mend_partial_sum *(*pick_sum)(const mend_explanation *state, int zone, size_t i);

static const mend_partial_sum *pick_size(const mend_explanation *state, int zone, size_t i)
{
    return &state->by_owner_size[zone][i];
}

static const mend_partial_sum *pick_count(const mend_explanation *state, int zone, size_t i)
{
    return &state->by_owner_count[zone][i];
}

static const mend_partial_sum *pick_reached(const mend_explanation *state, int zone, size_t i)
{
    (void)i;
    return &state->reached_into[zone];
}

static void print_sum(FILE *out, const mend_replay_result *result, const char *what, pick_sum pick,
                      int zone, size_t k)
{
    line l = {.has_chunks = true};
    snprintf(l.what, sizeof(l.what), "%s, %s", zone_names[zone], what);
    for (size_t i = 0; i < MEND_MOMENT_COUNT; i++) {
        const mend_partial_sum *sum = pick(&result->explanation->moments[i].state, zone, k);
        l.bytes[i] = sum->free_bytes;
        l.chunks[i] = sum->chunks;
    }
    print_line(out, result, &l);
}

static void print_owners(FILE *out, const mend_replay_result *result)
{
    char what[TEXT_BYTES];
    char size[32];
    for (int zone = MEND_ZONES_OF_BLOCKS - 1; zone >= 0; zone--) {
        for (size_t i = 0; i < MEND_EXPLAIN_CLASSES; i++) {
            bool is_last = mend_explain_class_bytes(i) == UINT64_MAX;
            mend_format_bytes(mend_explain_class_bytes(is_last ? i - 1 : i), size, sizeof(size));
            snprintf(what, sizeof(what), "most held by a block %s %s", is_last ? "above" : "up to",
                     size);
            print_sum(out, result, what, pick_size, zone, i);
        }
        for (size_t i = 0; i < MEND_EXPLAIN_OWNER_COUNTS; i++) {
            snprintf(what, sizeof(what), "held by %s", count_names[i]);
            print_sum(out, result, what, pick_count, zone, i);
        }
        print_sum(out, result, "only reached into by neighbours", pick_reached, zone, 0);
    }
}

static void print_emptiest(FILE *out, const mend_replay_moment *moment, size_t i)
{
    const mend_partial_chunk *partial = &moment->state.emptiest[i];
    const mend_replay_owner *owner = &moment->owners[i];
    char until[TEXT_BYTES] = "never freed";
    if (owner->is_freed) {
        snprintf(until, sizeof(until), "freed %llu later",
                 (unsigned long long)(owner->freed_at - moment->event));
    }
    fprintf(out,
            "    %9.1f MiB free of %7.1f, held by %llu; most of it, %.3f MiB, by a block of %.3f "
            "MiB, %llu events old, %s\n",
            MIB(partial->free_bytes), MIB(partial->size_bytes), (unsigned long long)partial->owners,
            MIB(partial->held_bytes), MIB(partial->owner_bytes),
            (unsigned long long)(moment->event - owner->allocated_at), until);
}

static void print_largest(FILE *out, const mend_replay_result *result)
{
    for (size_t k = 0; k < MEND_MOMENT_COUNT; k++) {
        const mend_replay_moment *moment = &result->explanation->moments[k];
        if (!moment->applies || moment->state.emptiest_count == 0) {
            continue;
        }
        fprintf(out, "  emptiest chunks in use, %s\n", moment_names[k]);
        for (size_t i = 0; i < moment->state.emptiest_count && i < SHOWN_EMPTIEST; i++) {
            print_emptiest(out, moment, i);
        }
    }
}

/* The bytes that a failed request lacked, apart from memory that can be mapped anywhere. */
static uint64_t missing_bytes(const mend_replay_moment *moment, uint64_t room_bytes)
{
    uint64_t movable_bytes = room_bytes + moment->state.unmapped_bytes;
    for (int zone = 0; zone < MEND_ZONES_OF_BLOCKS; zone++) {
        const uint64_t *whole = moment->state.free_bytes[zone][MEND_FREE_EMPTY];
        movable_bytes += whole[MEND_FREE_IDLE] + whole[MEND_FREE_OWN];
    }
    return moment->size_bytes > movable_bytes ? moment->size_bytes - movable_bytes : 0;
}

static void print_totals(FILE *out, const mend_replay_result *result)
{
    const mend_replay_moment *moments = result->explanation->moments;
    line live = {.what = "live"};
    line free_line = {.what = "reserved and not live"};
    line unmapped = {.what = "empty chunks mapped nowhere"};
    line room = {.what = "not reserved, of the capacity"};
    line request = {.what = "asked for"};
    line usable = {.what = "longest usable stretch"};
    line missing = {.what = "missing: requested, less empty chunks and unused limit"};
    line lent = {.what = "live small blocks in the large zone"};
    line retired = {.what = "addresses of retired mappings"};
    for (size_t i = 0; i < MEND_MOMENT_COUNT; i++) {
        const mend_explanation *state = &moments[i].state;
        uint64_t capacity = result->limited ? result->capacity_bytes : 0;
        live.bytes[i] = state->live_bytes;
        free_line.bytes[i] = state->reserved_bytes - state->live_bytes;
        unmapped.bytes[i] = state->unmapped_bytes;
        room.bytes[i] = capacity > state->reserved_bytes ? capacity - state->reserved_bytes : 0;
        request.bytes[i] = moments[i].is_alloc ? moments[i].size_bytes : 0;
        usable.bytes[i] = state->usable_bytes;
        missing.bytes[i] = i == MEND_MOMENT_FAILURE ? missing_bytes(&moments[i], room.bytes[i]) : 0;
        lent.bytes[i] = state->lent_bytes;
        retired.bytes[i] = state->retired_bytes;
    }
    print_line(out, result, &live);
    print_line(out, result, &free_line);
    fputs("  of the memory that is reserved and not live\n", out);
    print_line(out, result, &unmapped);
    print_free(out, result);
    fputs(
        "  of the free memory in partly used chunks: by the block that holds most of each, by the "
        "number of blocks\n",
        out);
    print_owners(out, result);
    fputs("  beside it\n", out);
    print_line(out, result, &request);
    print_line(out, result, &usable);
    print_line(out, result, &room);
    print_line(out, result, &missing);
    print_line(out, result, &lent);
    print_line(out, result, &retired);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void print_sizes(FILE *out, const mend_replay_explanation *explanation, size_t cause)
{
    for (size_t i = 0; i < MEND_CAUSE_CLASSES; i++) {
        uint64_t chunks = explanation->costs.by_size[cause][i].chunks;
        uint64_t time_ns = explanation->costs.by_size[cause][i].time_ns;
        uint64_t later_ns = explanation->costs_second_half.by_size[cause][i].time_ns;
        if (chunks == 0 && time_ns == 0) {
            continue;
        }
        bool is_last = mend_cause_class_bytes(i) == UINT64_MAX;
        char size[32];
        char what[TEXT_BYTES];
        mend_format_bytes(mend_cause_class_bytes(is_last ? i - 1 : i), size, sizeof(size));
        snprintf(what, sizeof(what), "%llu chunks %s %s", (unsigned long long)chunks,
                 is_last ? "above" : "up to", size);
        fprintf(out, "      %-48s%11.2f %30.2f\n", what, (double)time_ns / 1e6,
                (double)later_ns / 1e6);
    }
}

static void print_time(FILE *out, const mend_replay_result *result)
{
    const mend_replay_explanation *explanation = result->explanation;
    double all_us = result->driver_time_us > 0 ? result->driver_time_us : 1;
    fprintf(out, "  %-52s%11s %8s %8s %13s %9s\n", "driver time by cause", "ms", "share", "calls",
            "ms, 2nd half", "calls");
    for (size_t cause = 0; cause < MEND_CAUSE_COUNT; cause++) {
        const mend_replay_cost *all = &explanation->costs.by_cause[cause];
        const mend_replay_cost *later = &explanation->costs_second_half.by_cause[cause];
        if (all->calls == 0) {
            continue;
        }
        fprintf(out, "    %-50s%11.2f %6.1f %% %8llu %13.2f %9llu\n", cause_names[cause],
                (double)all->time_ns / 1e6, (double)all->time_ns / 10 / all_us,
                (unsigned long long)all->calls, (double)later->time_ns / 1e6,
                (unsigned long long)later->calls);
        if (cause <= MEND_CAUSE_undoing) {
            print_sizes(out, explanation, cause);
        }
    }
}

void mend_replay_explain_text(FILE *out, const mend_replay_result *result)
{
    if (result->explanation->knows_memory) {
        print_head(out, result->explanation);
        print_totals(out, result);
        print_largest(out, result);
    } else {
        fputs("  this policy cannot tell where its memory is\n", out);
    }
    print_time(out, result);
    fputc('\n', out);
    fflush(out);
}
