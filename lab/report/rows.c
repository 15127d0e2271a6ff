#include "lab/report/rows.h"

#include <stdlib.h>

#include "base/error.h"

typedef struct row_writer {
    const mend_report *report;
    mend_rows *rows;
    uint32_t *row_of;       /* by event */
    uint64_t *units_before; /* by owner: of its block before. 0: none */
    size_t segments;        /* that are written */
    size_t refusals;
    uint64_t allocated; /* blocks */
} row_writer;

static uint64_t units_of(uint64_t bytes)
{
    return bytes / MEND_ROW_UNIT_BYTES + (bytes % MEND_ROW_UNIT_BYTES != 0);
}

static void add_row(row_writer *writer, mend_row_kind kind)
{
    mend_column_add(&writer->rows->kind, kind);
    writer->rows->count++;
}

static void write_segment(row_writer *writer, const mend_trace_segment *segment)
{
    mend_rows *rows = writer->rows;
    if (segment->is_wait) {
        add_row(writer, MEND_ROW_WAIT);
        mend_column_add(&rows->waited_us, segment->waited_ns / 1000);
        return;
    }
    add_row(writer, segment->is_place   ? segment->is_taken ? MEND_ROW_PLACE : MEND_ROW_UNPLACE
                    : segment->is_taken ? MEND_ROW_TAKE
                                        : MEND_ROW_GIVE);
    mend_column_add_change(&rows->segment_address, segment->address / MEND_ROW_UNIT_BYTES);
    mend_column_add(&rows->segment_size, units_of(segment->size_bytes));
    mend_column_add(&rows->segment_stream, segment->stream);
}

static void write_refusal(row_writer *writer, const mend_trace_refusal *refusal)
{
    mend_rows *rows = writer->rows;
    rows->last_failure = rows->count;
    rows->failures++;
    add_row(writer, MEND_ROW_REFUSE);
    mend_column_add(&rows->refused_size, units_of(refusal->size_bytes));
    mend_column_add(&rows->refused_short, units_of(refusal->short_bytes));
    mend_column_add(&rows->refused_stream, refusal->stream);
}

/* Memory that the allocator created, released and refused before an event. */
static void write_allocator(row_writer *writer, size_t event)
{
    const mend_trace_detail *detail = &writer->report->detail;
    for (;;) {
        const mend_trace_segment *segment =
            writer->segments < detail->segment_count ? &detail->segments[writer->segments] : NULL;
        const mend_trace_refusal *refusal =
            writer->refusals < detail->refusal_count ? &detail->refusals[writer->refusals] : NULL;
        bool has_segment = segment != NULL && segment->event <= event;
        bool has_refusal = refusal != NULL && refusal->event <= event;
        if (has_refusal && (!has_segment || refusal->segments <= writer->segments)) {
            write_refusal(writer, refusal);
            writer->refusals++;
        } else if (has_segment) {
            write_segment(writer, segment);
            writer->segments++;
        } else {
            return;
        }
    }
}

static void write_event(row_writer *writer, size_t index)
{
    const mend_report *report = writer->report;
    const mend_trace_event *event = &report->trace->events[index];
    mend_rows *rows = writer->rows;
    writer->row_of[index] = (uint32_t)rows->count;
    add_row(writer, event->is_alloc ? MEND_ROW_ALLOC : MEND_ROW_FREE);
    if (!event->is_alloc) {
        mend_column_add(&rows->back, writer->allocated - 1 - event->block);
        return;
    }
    writer->allocated++;
    uint32_t owner = report->owner_of[event->block];
    uint64_t units = units_of(event->size_bytes);
    mend_column_add(&rows->size, units == writer->units_before[owner] ? 0 : units + 1);
    writer->units_before[owner] = units;
    mend_column_add(&rows->owner, owner);
    mend_column_add(&rows->stream, event->stream);
    if ((report->knows_held || report->knows_gaps) && event->block < report->detail.place_count) {
        uint64_t address = report->detail.places[event->block].address;
        mend_column_add_change(&rows->address, address / MEND_ROW_UNIT_BYTES);
    }
}

/* Free memory that waits for streams: its free was requested, and is not complete. */
static void write_waits(row_writer *writer)
{
    const mend_report *report = writer->report;
    for (size_t b = 0; b < report->trace->block_count; b++) {
        uint32_t asked = b < report->detail.place_count ? report->detail.places[b].asked_behind : 0;
        uint32_t born = writer->row_of[report->born[b]];
        uint32_t died = report->died[b];
        bool waits = asked > born && (died == UINT32_MAX || asked < writer->row_of[died]);
        mend_column_add(&writer->rows->wait, waits ? asked - born : 0);
    }
}

static bool lacks_memory(const mend_rows *rows)
{
    bool lacks = false;
#define X(name) lacks |= rows->name.lacks_memory;
    MEND_ROW_COLUMNS(X)
#undef X
    return lacks;
}

void mend_rows_clear(mend_rows *rows)
{
#define X(name) mend_column_clear(&rows->name);
    MEND_ROW_COLUMNS(X)
#undef X
    *rows = (mend_rows){0};
}

mend_result mend_rows_make(const mend_report *report, mend_rows *rows)
{
    *rows = (mend_rows){0};
    size_t events = report->trace->event_count;
    row_writer writer = {.report = report, .rows = rows};
    writer.row_of = calloc(events + 1, sizeof(uint32_t));
    writer.units_before = calloc(report->owner_count + 1, sizeof(uint64_t));
    if (writer.row_of == NULL || writer.units_before == NULL) {
        free(writer.row_of);
        free(writer.units_before);
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the page");
    }
    for (size_t i = 0; i < events; i++) {
        write_allocator(&writer, i);
        write_event(&writer, i);
    }
    write_allocator(&writer, events);
    write_waits(&writer);
    rows->peak = writer.row_of[report->peak_event];
    rows->moment = report->has_failed ? rows->last_failure : rows->peak;
    free(writer.row_of);
    free(writer.units_before);
    return lacks_memory(rows)
               ? mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the page")
               : MEND_OK;
}
