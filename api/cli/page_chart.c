/*
 * A chart of one run: allocated and reserved memory, the device's size, and the end of the run. A
 * column of the chart covers many events and shows the largest value of each kind, because peaks
 * cause out of memory.
 */
#include "base/align.h"
#include "cli/page_parts.h"
#include "lab/support/page_text.h"

/* The plot, in units of the drawing. */
enum {
    WIDTH = 360,
    HEIGHT = 196,
    LEFT = 4,
    RIGHT = 356,
    TOP = 26,
    BOTTOM = 172,
    COLUMNS = 320,
    ARM = 7,             /* of the cross */
    NEVER_TEXT_ROOM = 96 /* least width for the text in the part that never ran */
};

typedef struct column {
    uint64_t live_bytes;
    uint64_t reserved_bytes;
    bool is_filled;
} column;

static double x_of(const mend_demo_act *act, uint64_t event)
{
    double width = (double)event * (double)(RIGHT - LEFT);
    return (double)LEFT + width / (double)mend_max_u64(act->event_count, 1);
}

static double y_of(const mend_demo_act *act, uint64_t bytes)
{
    double share = (double)bytes / (double)mend_max_u64(act->capacity_bytes, 1);
    return (double)BOTTOM - share * (double)(BOTTOM - TOP);
}

/* The largest values of each column. A column without a sample repeats the one before. */
static void fill_columns(const mend_demo_act *act, const mend_replay_result *result,
                         column columns[COLUMNS])
{
    for (size_t i = 0; i < result->sample_count; i++) {
        const mend_replay_sample *sample = &result->samples[i];
        column *at = &columns[sample->event * COLUMNS / mend_max_u64(act->event_count, 1)];
        at->live_bytes = mend_max_u64(at->live_bytes, sample->live_bytes);
        at->reserved_bytes = mend_max_u64(at->reserved_bytes, sample->reserved_bytes);
        at->is_filled = true;
    }
    uint64_t last_event = result->completed ? act->event_count : result->failed_at_event;
    uint64_t end = last_event * COLUMNS / mend_max_u64(act->event_count, 1);
    for (size_t i = 1; i < COLUMNS && i <= end; i++) {
        if (!columns[i].is_filled) {
            columns[i] = columns[i - 1];
        }
    }
}

/* The area below one of the two values. */
static void draw_area(FILE *out, const mend_demo_act *act, const column columns[COLUMNS],
                      bool is_live)
{
    fprintf(out, "<path class=\"%s\" d=\"M%d %d", is_live ? "live" : "held", LEFT, BOTTOM);
    double x = LEFT;
    double step = (double)(RIGHT - LEFT) / (double)COLUMNS;
    uint64_t drawn_bytes = UINT64_MAX;
    for (size_t i = 0; i < COLUMNS && columns[i].is_filled; i++) {
        uint64_t bytes = is_live ? columns[i].live_bytes : columns[i].reserved_bytes;
        if (bytes != drawn_bytes) {
            fprintf(out, "H%.1fV%.1f", x, y_of(act, bytes));
            drawn_bytes = bytes;
        }
        x += step;
    }
    fprintf(out, "H%.1fV%dZ\"/>\n", x, BOTTOM);
}

/* Where the run ended, and the part of the program that never ran. */
static void draw_end(FILE *out, const mend_demo_act *act, const mend_replay_result *result)
{
    const double right = RIGHT;
    double x = x_of(act, result->failed_at_event);
    fprintf(out, "<rect class=\"never\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", x,
            TOP, right - x, BOTTOM - TOP);
    if (right - x >= (double)NEVER_TEXT_ROOM) {
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">never reached</text>\n",
                (x + right) / 2, (TOP + BOTTOM) / 2);
    }
    fprintf(out,
            "<line class=\"stop\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n"
            "<path class=\"cross\" d=\"M%.1f %dl%d %dm0 -%dl-%d %d\"/>\n",
            x, TOP, x, BOTTOM, x - (double)ARM, TOP - ARM, 2 * ARM, 2 * ARM, 2 * ARM, 2 * ARM,
            2 * ARM);
}

static void draw_frame(FILE *out, const mend_demo_act *act)
{
    fprintf(out,
            "<line class=\"axis\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n"
            "<line class=\"limit\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n"
            "<text class=\"limit-name\" x=\"%d\" y=\"%d\">device: ",
            LEFT, BOTTOM, RIGHT, BOTTOM, LEFT, TOP, RIGHT, TOP, LEFT, TOP - 11);
    mend_page_bytes(out, act->capacity_bytes);
    fprintf(out,
            "</text>\n<text x=\"%d\" y=\"%d\">time</text>\n<text x=\"%d\" y=\"%d\" "
            "text-anchor=\"end\">",
            LEFT, BOTTOM + 17, RIGHT, BOTTOM + 17);
    mend_page_count(out, act->event_count);
    fputs(" events</text>\n", out);
}

void mend_page_chart(FILE *out, const mend_demo_act *act, size_t allocator)
{
    const mend_replay_result *result = &act->runs[allocator].result;
    column columns[COLUMNS] = {0};
    fill_columns(act, result, columns);
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    mend_page_text(out, mend_demo_allocators[allocator].title);
    fprintf(out, ": memory over time, %s at %.0f percent of the events\">\n",
            result->completed ? "completed" : "out of memory", mend_replay_reached_percent(result));
    draw_area(out, act, columns, false);
    draw_area(out, act, columns, true);
    draw_frame(out, act);
    if (!result->completed) {
        draw_end(out, act, result);
    }
    fputs("</svg>\n", out);
}
