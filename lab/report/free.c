/* Where the free memory of a moment is, and the blocks that hold it in place. */
#include "lab/report/free.h"

#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "lab/support/stretches.h"

typedef struct placed_block {
    uint64_t address;
    uint64_t size_bytes;
    uint32_t owner;
} placed_block;

typedef struct free_search {
    mend_report *report;
    placed_block *blocks; /* live at the moment, by address */
    size_t count;
    uint64_t run_bytes; /* the free piece that grows, and where it ends */
    uint64_t run_end;
    uint64_t stream; /* of the segment before */
    bool joins;      /* the segment with the one before it: same stream, and expandable */
    bool is_usable;  /* the segment is of the stream that failed */
} free_search;

static int by_address(const void *a, const void *b)
{
    const placed_block *one = a;
    const placed_block *other = b;
    return (one->address > other->address) - (one->address < other->address);
}

static void collect(free_search *search)
{
    const mend_report *report = search->report;
    for (size_t i = 0; i < report->moment_events; i++) {
        const mend_trace_event *event = &report->trace->events[i];
        if (event->is_alloc && report->died[event->block] >= report->moment_events &&
            event->block < report->detail.place_count) {
            search->blocks[search->count++] =
                (placed_block){report->detail.places[event->block].address,
                               mend_report_bytes(event), report->owner_of[event->block]};
        }
    }
    qsort(search->blocks, search->count, sizeof(*search->blocks), by_address);
}

/* Whether a log names addresses and not just blocks: allocators align to 256 bytes or more, and
 * live blocks do not overlap. */
static bool has_addresses(const free_search *search)
{
    for (size_t i = 0; i < search->count; i++) {
        const placed_block *block = &search->blocks[i];
        bool is_apart = i + 1 == search->count ||
                        search->blocks[i + 1].address - block->address >= block->size_bytes;
        if (block->size_bytes > 0 && (block->address % 256 != 0 || !is_apart)) {
            return false;
        }
    }
    return search->count > 1;
}

/* The addresses that a log has named up to the moment, as if they were held. */
static void hold_what_was_used(const mend_report *report, mend_stretches *held)
{
    for (size_t i = 0; i < report->moment_events; i++) {
        const mend_trace_event *event = &report->trace->events[i];
        if (event->is_alloc) {
            mend_stretches_add(held, report->detail.places[event->block].address,
                               mend_report_bytes(event), 0);
        }
    }
}

/* Reserved memory at the moment. `places` are the addresses with memory. */
static void hold(mend_report *report, mend_stretches *places)
{
    const mend_trace_detail *detail = &report->detail;
    uint64_t memory_bytes = 0;
    for (size_t i = 0; i < detail->segment_count; i++) {
        const mend_trace_segment *segment = &detail->segments[i];
        bool is_before = report->has_failed ? i < report->failure.segments
                                            : segment->event < report->moment_events;
        if (is_before && detail->has_places && !segment->is_place) {
            memory_bytes = segment->is_taken
                               ? memory_bytes + segment->size_bytes
                               : memory_bytes - mend_min_u64(memory_bytes, segment->size_bytes);
        } else if (is_before && segment->is_taken) {
            mend_stretches_add(places, segment->address, segment->size_bytes, segment->stream);
        } else if (is_before) {
            mend_stretches_remove(places, segment->address, segment->size_bytes);
        }
    }
    report->memory.held_bytes = detail->has_places ? memory_bytes : places->bytes;
}

/* Adjacent segments serve one request only with expandable segments. */
static void add_piece(free_search *search, uint64_t from, uint64_t to, bool begins_segment)
{
    mend_report_memory *memory = &search->report->memory;
    if (to <= from) {
        return;
    }
    bool goes_on =
        search->run_end == from && search->run_bytes > 0 && (!begins_segment || search->joins);
    search->run_bytes = (goes_on ? search->run_bytes : 0) + (to - from);
    search->run_end = to;
    memory->pieces += !goes_on;
    if (search->is_usable) {
        memory->longest_bytes = mend_max_u64(memory->longest_bytes, search->run_bytes);
    }
}

/* A segment, with the first block that may reach into it. Returns the first of the next one. */
static size_t look_into(free_search *search, const mend_stretch *segment, size_t first)
{
    mend_report_memory *memory = &search->report->memory;
    const mend_report *report = search->report;
    search->joins =
        report->knows_gaps || (report->detail.is_expandable && segment->owner == search->stream);
    search->stream = segment->owner;
    search->is_usable = report->knows_gaps || report->detail.is_recording || !report->has_failed ||
                        segment->owner == report->failure.stream;
    uint64_t end = segment->address + segment->size_bytes;
    uint64_t at = segment->address;
    uint64_t used_bytes = 0;
    uint64_t largest_bytes = 0;
    uint32_t largest = 0;
    size_t i = first;
    for (; i < search->count && search->blocks[i].address < end; i++) {
        const placed_block *block = &search->blocks[i];
        uint64_t block_end = block->address + block->size_bytes;
        if (block_end <= at) {
            continue;
        }
        uint64_t from = mend_max_u64(block->address, at);
        uint64_t to = mend_min_u64(block_end, end);
        add_piece(search, at, from, at == segment->address);
        used_bytes += to - from;
        if (to - from > largest_bytes) {
            largest_bytes = to - from;
            largest = block->owner;
        }
        at = to;
    }
    add_piece(search, at, end, at == segment->address);
    uint64_t free_bytes = segment->size_bytes - used_bytes;
    memory->others_bytes += search->is_usable ? 0 : free_bytes;
    if (used_bytes == 0) {
        memory->whole_bytes += free_bytes;
    } else if (free_bytes > 0) {
        memory->beside_bytes += free_bytes;
        if (report->knows_held) {
            search->report->owners[largest].kept_free_bytes += free_bytes;
            search->report->owners[largest].kept_segments++;
        }
    }
    bool reaches_on =
        i > first && search->blocks[i - 1].address + search->blocks[i - 1].size_bytes > end;
    return reaches_on ? i - 1 : i;
}

mend_result mend_report_find_free(mend_report *report)
{
    if (report->detail.is_snapshot && !report->knows_held) {
        return MEND_OK;
    }
    free_search search = {.report = report};
    search.blocks = calloc(report->trace->block_count + 1, sizeof(placed_block));
    if (search.blocks == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the report");
    }
    mend_stretches held;
    mend_stretches_init(&held);
    collect(&search);
    report->knows_gaps = !report->knows_held && has_addresses(&search);
    if (report->knows_gaps) {
        hold_what_was_used(report, &held);
        report->memory.held_bytes = held.bytes;
    } else {
        hold(report, &held);
    }
    size_t block = 0;
    for (mend_stretch *at = mend_stretches_first(&held); at != NULL; at = mend_stretches_next(at)) {
        while (block < search.count && search.blocks[block].address < at->address &&
               search.blocks[block].address + search.blocks[block].size_bytes <= at->address) {
            block++;
        }
        block = look_into(&search, at, block);
    }
    bool is_good = !held.lacks_memory;
    mend_stretches_clear(&held);
    free(search.blocks);
    return is_good ? MEND_OK
                   : mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the report");
}
