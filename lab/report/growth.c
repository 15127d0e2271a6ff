/*
 * Owners that keep growing. The work is divided into stretches of equally many events. The least
 * memory of an owner in each of them, its floor, is permanent: temporary blocks come and go above
 * it. A floor that rises, and does not come back, is growth. Where blocks of most stretches are
 * still live at the end it is a leak, else blocks are replaced by larger ones. A cache that fills
 * and is emptied comes back. An owner that is younger than a stretch, and absent in most of them,
 * is new.
 *
 * One pass through a model, or one step, builds up as a leak does. So growth needs a sign of
 * repeated work: memory in use has risen and fallen several times, or more blocks stay than a model
 * has layers, or much was allocated and freed between two permanent blocks.
 *
 * Owners that gain equally many blocks in each round leak in step: they leak one thing, a graph or
 * a batch, and are reported as one.
 */
#include "lab/report/growth.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/error.h"
#include "record/record.h"

enum {
    STRETCHES = MEND_GROWTH_STRETCHES,
    WARM_UP = MEND_GROWTH_WARM_UP,
    JUDGED = MEND_GROWTH_JUDGED,
    /* At the end all suspects together have at most the peak, and each has 0.5 % of it. */
    MOST_SUSPECTS = 202,
    /* Signs of work that is done again. A swing is a fall and a rise by so much: a share of the
     * growth of all together, or so many blocks, as the gradients of a step. There is one in each
     * of so many parts. */
    SWING_PARTS = 3,
    SWING_SHARE = 8,
    SWING_BLOCKS = 32,
    /* Allocations for each block that is kept: more than one layer of a model makes. */
    LEAST_SPACING = 128,
    LEAST_ROUNDS = 4
};

typedef struct floor_line {
    uint64_t least[STRETCHES];
} floor_line;

typedef struct growth_search {
    mend_report *report;
    floor_line *floors; /* by owner. The last is for all live memory */
    uint64_t *live;     /* by owner: now. The last is for all */
    uint64_t *low;      /* the least in this stretch */
    uint32_t *kept;     /* by owner: a bit for each stretch of which a block is live at the end */
    uint64_t *kept_blocks; /* by owner: blocks born in examined stretches, live at the end */
    uint64_t *births;      /* by owner: its blocks born in them */
    uint32_t *reached;     /* by owner: a bit for each stretch in which it had half of its end */
    double *start;         /* by owner: its memory without its growth */
    size_t count;          /* of owners */
    size_t suspects[MOST_SUSPECTS]; /* owners that grow. The report has their number */
    uint64_t begin, end;            /* events. Blocks from before the recording have no time */
    uint64_t all_births, all_frees; /* in examined stretches */
    bool has_swung;
} growth_search;

static uint64_t end_of(const growth_search *search, size_t stretch)
{
    return search->begin + (stretch + 1) * (search->end - search->begin) / STRETCHES;
}

static void apply(growth_search *search, size_t index)
{
    const mend_trace_event *event = &search->report->trace->events[index];
    uint64_t bytes = mend_report_bytes(event);
    size_t owners[] = {search->report->owner_of[event->block], search->count};
    for (size_t i = 0; i < 2; i++) {
        uint64_t *live = &search->live[owners[i]];
        *live = event->is_alloc ? *live + bytes : *live - bytes;
        search->low[owners[i]] = mend_min_u64(search->low[owners[i]], *live);
    }
}

static void note_reached(growth_search *search, size_t owner, size_t stretch)
{
    const bool is_there = search->live[owner] >= search->report->owners[owner].bytes / 2;
    search->reached[owner] |= (uint32_t)is_there << stretch;
}

static void find_floors(growth_search *search)
{
    const mend_report *report = search->report;
    size_t index = 0;
    for (; index < search->begin; index++) {
        apply(search, index);
    }
    for (size_t h = 0; h <= search->count; h++) {
        search->low[h] = search->live[h];
    }
    for (size_t stretch = 0; stretch < STRETCHES; stretch++) {
        for (; index < end_of(search, stretch); index++) {
            apply(search, index);
            note_reached(search, report->owner_of[report->trace->events[index].block], stretch);
        }
        for (size_t h = 0; h < search->count; h++) {
            note_reached(search, h, stretch);
        }
        for (size_t h = 0; h <= search->count; h++) {
            search->floors[h].least[stretch] = search->low[h];
            search->low[h] = search->live[h];
        }
    }
}

/* Of which stretches each owner has blocks at the end. */
static void get_backup(growth_search *search)
{
    const mend_report *report = search->report;
    const uint64_t judged = end_of(search, WARM_UP - 1);
    for (size_t b = 0; b < report->trace->block_count; b++) {
        const uint32_t owner = report->owner_of[b];
        const bool is_kept = report->died[b] >= search->end;
        if (report->died[b] >= judged && !is_kept) {
            search->all_frees++;
        }
        if (report->born[b] >= search->end) {
            continue;
        }
        if (is_kept && report->born[b] >= search->begin) {
            size_t stretch = 0;
            while (report->born[b] >= end_of(search, stretch)) {
                stretch++;
            }
            search->kept[owner] |= 1u << stretch;
        }
        if (report->born[b] >= judged) {
            search->all_births++;
            search->births[owner]++;
            search->kept_blocks[owner] += is_kept;
        }
    }
}

/* ---- work that is done again ----------------------------------------------------------------- */

/* Whether memory in use, or the number of blocks, falls and rises again by so much all the time. */
static bool swings(const growth_search *search, uint64_t amplitude, bool counts_blocks)
{
    const mend_report *report = search->report;
    const uint64_t judged = end_of(search, WARM_UP - 1);
    uint64_t now = 0;
    uint64_t high = 0;
    uint64_t low = UINT64_MAX; /* since it fell. Before it falls: none */
    bool has[SWING_PARTS] = {false};
    for (size_t i = 0; i < search->end; i++) {
        const mend_trace_event *event = &report->trace->events[i];
        const uint64_t change = counts_blocks ? 1 : mend_report_bytes(event);
        now = event->is_alloc ? now + change : now - change;
        if (i < judged) {
            high = now;
        } else if (low == UINT64_MAX) {
            high = mend_max_u64(high, now);
            low = high - now >= amplitude ? now : low;
        } else if (low = mend_min_u64(low, now), now - low >= amplitude) {
            has[(i - judged) * SWING_PARTS / (search->end - judged)] = true;
            high = now;
            low = UINT64_MAX;
        }
    }
    return has[0] && has[1] && has[2];
}

static uint64_t whole_growth(const growth_search *search)
{
    const uint64_t *least = search->floors[search->count].least;
    return mend_max_u64(least[STRETCHES - 1], least[WARM_UP]) - least[WARM_UP];
}

static bool has_swung(const growth_search *search)
{
    uint64_t growth_bytes = 0;
    for (size_t h = 0; h < search->count; h++) {
        growth_bytes += search->report->owners[h].growth_bytes;
    }
    mend_raise_u64(&growth_bytes, whole_growth(search));
    return swings(search, mend_max_u64(growth_bytes / SWING_SHARE, MEND_MIB), false) ||
           swings(search, SWING_BLOCKS, true);
}

static bool works_again(const growth_search *search, size_t owner)
{
    const mend_report_owner *h = &search->report->owners[owner];
    const uint64_t kept = search->kept_blocks[owner];
    const bool frees_most = search->all_frees >= search->all_births / 4 * 3;
    return search->has_swung ||
           (kept >= MEND_GROWTH_MANY_BLOCKS && search->all_frees >= search->all_births / 3 &&
            whole_growth(search) >= h->growth_bytes / 2) ||
           (kept > 0 && frees_most && search->all_births / kept >= LEAST_SPACING) ||
           (h->trend == MEND_TREND_GROWS && search->births[owner] >= 8 * h->blocks);
}

/* Of the certain leaks, the owner with the fewest blocks has one a round. UINT64_MAX: none. */
static uint64_t rounds_of(const growth_search *search)
{
    uint64_t rounds = UINT64_MAX;
    for (size_t h = 0; h < search->count; h++) {
        const mend_report_owner *owner = &search->report->owners[h];
        if (owner->growth_bytes > 0 && owner->trend == MEND_TREND_LEAKS &&
            search->kept_blocks[h] >= LEAST_ROUNDS && works_again(search, h)) {
            rounds = mend_min_u64(rounds, search->kept_blocks[h]);
        }
    }
    return rounds;
}

/* Whether an owner has a few blocks a round, except a round that the examined stretches cut. */
static bool leaks_in_step(const growth_search *search, size_t owner, uint64_t rounds)
{
    const uint64_t kept = search->kept_blocks[owner];
    const uint64_t each = (kept + rounds / 2) / rounds;
    const uint64_t even = each * rounds;
    return search->report->owners[owner].trend == MEND_TREND_LEAKS && each > 0 &&
           (kept > even ? kept - even : even - kept) <= each;
}

/* ---- trends ---------------------------------------------------------------------------------- */

/* Without its growth an owner stays where its line, drawn back to the start, begins. */
static double start_of(const floor_line *floors, uint64_t growth_bytes)
{
    double a_stretch = (double)growth_bytes / (JUDGED - 1);
    double start = (double)floors->least[WARM_UP] - a_stretch * (WARM_UP + 1);
    return start > 0 ? start : 0;
}

static bool is_new(const growth_search *search, size_t number)
{
    const mend_report *report = search->report;
    const mend_report_owner *owner = &report->owners[number];
    return report->has_failed && owner->blocks > 0 &&
           report->moment_events - owner->oldest_event <= search->end / STRETCHES &&
           __builtin_popcount(search->reached[number]) <= STRETCHES / 4;
}

/* Whether an owner has freed half of its growth after the end of the work, while others still have
 * most of their memory: then the program frees it again. A program that ends frees all. */
static void find_freed_again(growth_search *search)
{
    const mend_report *report = search->report;
    uint64_t *const live = search->low; /* at the end of the file. Not needed for floors any more */
    memcpy(live, search->live, (search->count + 1) * sizeof(*live));
    for (size_t i = search->end; i < report->trace->event_count; i++) {
        const mend_trace_event *event = &report->trace->events[i];
        const uint64_t bytes = mend_report_bytes(event);
        uint64_t *const own = &live[report->owner_of[event->block]];
        *own = event->is_alloc ? *own + bytes : *own - bytes;
    }
    uint64_t others_before = 0;
    uint64_t others_after = 0;
    for (size_t h = 0; h < search->count; h++) {
        others_before += report->owners[h].growth_bytes == 0 ? search->live[h] : 0;
        others_after += report->owners[h].growth_bytes == 0 ? live[h] : 0;
    }
    for (size_t h = 0; h < search->count && others_after >= others_before / 2; h++) {
        mend_report_owner *owner = &search->report->owners[h];
        if (live[h] + owner->growth_bytes / 2 < search->floors[h].least[STRETCHES - 1]) {
            owner->growth_bytes = 0;
        }
    }
}

static void find_trends(growth_search *search)
{
    mend_report *report = search->report;
    for (size_t h = 0; h < search->count; h++) {
        report->owners[h].growth_bytes =
            mend_growth_judge(search->floors[h].least, report->peak_bytes);
    }
    search->has_swung = has_swung(search);
    uint64_t explained_bytes = 0;
    for (size_t h = 0; h < search->count; h++) {
        explained_bytes += report->owners[h].growth_bytes;
        mend_report_owner *owner = &report->owners[h];
        owner->trend = is_new(search, h) ? MEND_TREND_NEW : MEND_TREND_STEADY;
        if (owner->growth_bytes > 0) {
            const unsigned kept = (unsigned)__builtin_popcount(search->kept[h] >> WARM_UP);
            owner->trend = kept * 2 >= JUDGED ? MEND_TREND_LEAKS : MEND_TREND_GROWS;
        }
    }
    report->rounds = rounds_of(search);
    for (size_t h = 0; h < search->count; h++) {
        mend_report_owner *owner = &report->owners[h];
        owner->in_step = owner->growth_bytes > 0 && leaks_in_step(search, h, report->rounds);
        if (owner->growth_bytes > 0 && !owner->in_step && !works_again(search, h)) {
            owner->growth_bytes = 0;
        }
    }
    if (!report->has_failed) {
        find_freed_again(search);
    }
    for (size_t h = 0; h < search->count; h++) {
        mend_report_owner *owner = &report->owners[h];
        if (owner->growth_bytes == 0 && owner->trend != MEND_TREND_NEW) {
            owner->trend = MEND_TREND_STEADY;
        } else if (owner->growth_bytes > 0) {
            search->start[h] = start_of(&search->floors[h], owner->growth_bytes);
            assert(report->suspects < MOST_SUSPECTS);
            search->suspects[report->suspects++] = h;
            report->growth_bytes += owner->growth_bytes;
            report->in_step += owner->in_step;
            report->in_step_bytes += owner->in_step ? owner->growth_bytes : 0;
        }
    }
    report->in_step = report->in_step >= 2 ? report->in_step : 0;
    report->whole_growth_bytes =
        mend_growth_judge(search->floors[search->count].least, report->peak_bytes);
    report->grows_as_whole = explained_bytes < report->whole_growth_bytes / 2 && search->has_swung;
}

/* The memory of an owner beyond its permanent level. */
static uint64_t excess_of(const growth_search *search, size_t owner)
{
    double excess = (double)search->live[owner] - search->start[owner];
    return search->report->owners[owner].growth_bytes > 0 && excess > 0 ? (uint64_t)excess : 0;
}

/* The peaks of the whole run, without the growth of all suspects and of each alone. */
static void find_peaks_without(growth_search *search)
{
    mend_report *report = search->report;
    uint64_t all_excess = 0;
    uint64_t step_excess = 0;
    for (size_t h = 0; h <= search->count; h++) {
        search->live[h] = 0;
    }
    for (size_t i = 0; i < report->trace->event_count; i++) {
        size_t owner = report->owner_of[report->trace->events[i].block];
        uint64_t before = excess_of(search, owner);
        apply(search, i);
        const uint64_t change = excess_of(search, owner) - before; /* modulo 2^64 */
        all_excess += change;
        step_excess += report->owners[owner].in_step ? change : 0;
        uint64_t live = search->live[search->count];
        report->without_bytes = mend_max_u64(report->without_bytes, live - all_excess);
        mend_raise_u64(&report->without_step_bytes, live - step_excess);
        for (size_t k = 0; k < report->suspects; k++) {
            uint64_t *without = &report->owners[search->suspects[k]].without_bytes;
            *without = mend_max_u64(*without, live - excess_of(search, search->suspects[k]));
        }
    }
}

mend_result mend_report_find_growth(mend_report *report)
{
    size_t count = report->owner_count;
    growth_search search = {.report = report,
                            .count = count,
                            .begin = report->detail.before_events,
                            .end = report->end_events};
    report->without_bytes = report->peak_bytes;
    if (search.end < search.begin + MEND_GROWTH_LEAST_EVENTS) {
        return MEND_OK;
    }
    report->growth_event = end_of(&search, WARM_UP - 1);
    search.floors = calloc(count + 1, sizeof(floor_line));
    search.live = calloc(count + 1, sizeof(uint64_t));
    search.low = calloc(count + 1, sizeof(uint64_t));
    search.kept = calloc(count + 1, sizeof(uint32_t));
    search.kept_blocks = calloc(count + 1, sizeof(uint64_t));
    search.births = calloc(count + 1, sizeof(uint64_t));
    search.reached = calloc(count + 1, sizeof(uint32_t));
    search.start = calloc(count + 1, sizeof(double));
    bool is_good = search.floors != NULL && search.live != NULL && search.low != NULL &&
                   search.kept != NULL && search.kept_blocks != NULL && search.births != NULL &&
                   search.reached != NULL && search.start != NULL;
    if (is_good) {
        find_floors(&search);
        get_backup(&search);
        find_trends(&search);
    }
    if (is_good && report->suspects > 0) {
        report->without_bytes = 0;
        find_peaks_without(&search);
    }
    free(search.floors);
    free(search.live);
    free(search.low);
    free(search.kept);
    free(search.kept_blocks);
    free(search.births);
    free(search.reached);
    free(search.start);
    return is_good ? MEND_OK
                   : mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the report");
}
