/*
 * Who keeps growing. The work is divided into stretches of equally many events. What a holder has
 * at least in each of them, its floor, is what it keeps: temporary blocks come and go above it. A
 * floor that rises, and does not come back, is growth; where blocks of most stretches are still
 * live at the end it is a leak, else blocks are replaced by larger ones. What fills up and is
 * emptied again comes back. What is younger than a stretch, and was not there in most of them, is
 * new.
 */
#include "lab/report/growth.h"

#include <assert.h>
#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "base/growth.h"

enum {
    STRETCHES = MEND_GROWTH_STRETCHES,
    WARM_UP = MEND_GROWTH_WARM_UP,
    JUDGED = MEND_GROWTH_JUDGED,
    /* At the end all suspects together have at most the peak, and each has 0.5 % of it. */
    MOST_SUSPECTS = 202
};

typedef struct floor_line {
    uint64_t least[STRETCHES];
} floor_line;

typedef struct growth_search {
    mend_report *report;
    floor_line *floors; /* by holder; the last is for all live memory */
    uint64_t *live;     /* by holder: now; the last is for all */
    uint64_t *low;      /* the least in this stretch */
    uint32_t *kept;     /* by holder: a bit for each stretch of which a block is live at the end */
    uint32_t *reached;  /* by holder: a bit for each stretch in which it had half of its end */
    double *start;      /* by holder: what it has without its growth */
    size_t count;       /* of holders */
    size_t suspects[MOST_SUSPECTS]; /* holders that grow; the report has their number */
    uint64_t end;                   /* events */
} growth_search;

static uint64_t end_of(const growth_search *search, size_t stretch)
{
    return (stretch + 1) * search->end / STRETCHES;
}

static void apply(growth_search *search, size_t index)
{
    const mend_trace_event *event = &search->report->trace->events[index];
    uint64_t bytes = mend_report_bytes(event);
    size_t holders[] = {search->report->holder_of[event->block], search->count};
    for (size_t i = 0; i < 2; i++) {
        uint64_t *live = &search->live[holders[i]];
        *live = event->is_alloc ? *live + bytes : *live - bytes;
        search->low[holders[i]] = mend_min_u64(search->low[holders[i]], *live);
    }
}

static void note_reached(growth_search *search, size_t holder, size_t stretch)
{
    const bool is_there = search->live[holder] >= search->report->holders[holder].bytes / 2;
    search->reached[holder] |= (uint32_t)is_there << stretch;
}

static void find_floors(growth_search *search)
{
    const mend_report *report = search->report;
    size_t index = 0;
    for (size_t stretch = 0; stretch < STRETCHES; stretch++) {
        for (; index < end_of(search, stretch); index++) {
            apply(search, index);
            note_reached(search, report->holder_of[report->trace->events[index].block], stretch);
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

/* Of which stretches each holder has blocks at the end. */
static void find_kept(growth_search *search)
{
    const mend_report *report = search->report;
    for (size_t b = 0; b < report->trace->block_count; b++) {
        if (report->born[b] < search->end && report->died[b] >= search->end) {
            size_t stretch = 0;
            while (report->born[b] >= end_of(search, stretch)) {
                stretch++;
            }
            search->kept[report->holder_of[b]] |= 1u << stretch;
        }
    }
}

/* Without its growth a holder stays where its line, drawn back to the start, begins. */
static double start_of(const floor_line *floors, uint64_t growth_bytes)
{
    double a_stretch = (double)growth_bytes / (JUDGED - 1);
    double start = (double)floors->least[WARM_UP] - a_stretch * (WARM_UP + 1);
    return start > 0 ? start : 0;
}

static bool is_new(const growth_search *search, size_t number)
{
    const mend_report *report = search->report;
    const mend_report_holder *holder = &report->holders[number];
    return report->has_failed && holder->blocks > 0 &&
           report->moment_events - holder->oldest_event <= search->end / STRETCHES &&
           __builtin_popcount(search->reached[number]) <= STRETCHES / 4;
}

static void find_trends(growth_search *search)
{
    mend_report *report = search->report;
    for (size_t h = 0; h < search->count; h++) {
        mend_report_holder *holder = &report->holders[h];
        holder->trend = is_new(search, h) ? MEND_TREND_NEW : MEND_TREND_STEADY;
        holder->growth_bytes = mend_growth_judge(search->floors[h].least, report->peak_bytes);
        if (holder->growth_bytes > 0) {
            holder->trend =
                mend_growth_leaks(search->kept[h]) ? MEND_TREND_LEAKS : MEND_TREND_GROWS;
            search->start[h] = start_of(&search->floors[h], holder->growth_bytes);
            assert(report->suspects < MOST_SUSPECTS);
            search->suspects[report->suspects++] = h;
            report->growth_bytes += holder->growth_bytes;
        }
    }
    report->whole_growth_bytes =
        mend_growth_judge(search->floors[search->count].least, report->peak_bytes);
    report->grows_as_whole = report->growth_bytes < report->whole_growth_bytes / 2;
}

/* What a holder has now beyond where it would stay. */
static uint64_t excess_of(const growth_search *search, size_t holder)
{
    double excess = (double)search->live[holder] - search->start[holder];
    return search->report->holders[holder].growth_bytes > 0 && excess > 0 ? (uint64_t)excess : 0;
}

/* The peaks of the whole run, without the growth of all suspects and of each alone. */
static void find_peaks_without(growth_search *search)
{
    mend_report *report = search->report;
    uint64_t all_excess = 0;
    for (size_t h = 0; h <= search->count; h++) {
        search->live[h] = 0;
    }
    for (size_t i = 0; i < report->trace->event_count; i++) {
        size_t holder = report->holder_of[report->trace->events[i].block];
        uint64_t before = excess_of(search, holder);
        apply(search, i);
        all_excess = all_excess - before + excess_of(search, holder);
        uint64_t live = search->live[search->count];
        report->without_bytes = mend_max_u64(report->without_bytes, live - all_excess);
        for (size_t k = 0; k < report->suspects; k++) {
            uint64_t *without = &report->holders[search->suspects[k]].without_bytes;
            *without = mend_max_u64(*without, live - excess_of(search, search->suspects[k]));
        }
    }
}

mend_result mend_report_find_growth(mend_report *report)
{
    size_t count = report->holder_count;
    growth_search search = {.report = report, .count = count, .end = report->end_events};
    report->without_bytes = report->peak_bytes;
    report->growth_event = WARM_UP * report->end_events / STRETCHES;
    if (report->end_events < MEND_GROWTH_LEAST_EVENTS) {
        return MEND_OK;
    }
    search.floors = calloc(count + 1, sizeof(floor_line));
    search.live = calloc(count + 1, sizeof(uint64_t));
    search.low = calloc(count + 1, sizeof(uint64_t));
    search.kept = calloc(count + 1, sizeof(uint32_t));
    search.reached = calloc(count + 1, sizeof(uint32_t));
    search.start = calloc(count + 1, sizeof(double));
    bool is_good = search.floors != NULL && search.live != NULL && search.low != NULL &&
                   search.kept != NULL && search.reached != NULL && search.start != NULL;
    if (is_good) {
        find_floors(&search);
        find_kept(&search);
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
    free(search.reached);
    free(search.start);
    return is_good ? MEND_OK
                   : mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the report");
}
