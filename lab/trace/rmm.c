#include "lab/trace/rmm.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/trace/builder.h"

enum { COLUMN_THREAD, COLUMN_TIME, COLUMN_ACTION, COLUMN_POINTER, COLUMN_SIZE, COLUMN_STREAM };
enum { COLUMN_COUNT = 6 };
static const char *const column_names[COLUMN_COUNT] = {"Thread",  "Time", "Action",
                                                       "Pointer", "Size", "Stream"};

typedef struct log_row {
    char *fields[COLUMN_COUNT]; /* parts of `text`, without spaces around them */
    char text[MEND_LINE_BYTES + 1];
} log_row;

/* Splits the line at its commas. False if the number of fields is wrong. */
static bool split(const mend_line_source *source, log_row *row)
{
    memcpy(row->text, source->line, source->line_length + 1);
    char *rest = row->text;
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        char *comma = strchr(rest, ',');
        if ((comma != NULL) != (i + 1 < COLUMN_COUNT)) {
            return false;
        }
        char *end = comma != NULL ? comma : rest + strlen(rest);
        while (isspace((unsigned char)*rest) && rest < end) {
            rest++;
        }
        row->fields[i] = rest;
        rest = end + 1;
        while (end > row->fields[i] && isspace((unsigned char)end[-1])) {
            end--;
        }
        *end = 0;
    }
    return true;
}

bool mend_trace_is_rmm_log(const mend_line_source *source)
{
    log_row row;
    if (!split(source, &row)) {
        return false;
    }
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        if (strcasecmp(row.fields[i], column_names[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* Digits, or 0x and hexadecimal digits. Nothing before or after, and no overflow. */
static bool parse_number(const char *text, uint64_t *number)
{
    bool is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = is_hex ? text + 2 : text;
    if (is_hex ? !isxdigit((unsigned char)*digits) : !isdigit((unsigned char)*digits)) {
        return false;
    }
    char *end;
    errno = 0;
    uintmax_t value = strtoumax(digits, &end, is_hex ? 16 : 10);
    /* The tables cannot have the largest number. No pointer is that large. */
    if (*end != 0 || errno != 0 || value >= UINT64_MAX) {
        return false;
    }
    *number = value;
    return true;
}

/* A name for the text in the column Thread: its number, or a hash of the text. */
static uint64_t thread_name(const char *text)
{
    uint64_t name;
    if (parse_number(text, &name)) {
        return name;
    }
    name = UINT64_C(14695981039346656037);
    for (; *text != 0; text++) {
        name = (name ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return name >> 1;
}

static mend_result fail_field(const mend_line_source *source, int column, const char *text)
{
    return mend_line_source_fail(source, "%s \"%.40s\" is not a number", column_names[column],
                                 text);
}

/* Passes on a refusal of the builder, with the line. */
static mend_result judge_builder(const mend_line_source *source, const mend_trace_builder *builder)
{
    if (builder->failure != MEND_ERROR_INVALID_ARGUMENT) {
        return builder->failure;
    }
    char reason[128];
    mend_error error = MEND_ERROR_INIT;
    mend_get_last_error(&error);
    snprintf(reason, sizeof(reason), "%s", error.message);
    return mend_line_source_fail(source, "%s", reason);
}

typedef struct log_event {
    bool is_alloc;
    bool is_refusal; /* an allocation that failed: it has no pointer */
    uint64_t pointer;
    uint64_t size_bytes;
    mend_trace_actor actor;
} log_event;

/* The reader's tables. */
typedef struct live_blocks {
    mend_pointer_map newest; /* from the key of a pointer to its newest block + 1 */
    mend_pointer_map older;  /* from the key of a block to the next older one + 1 */
} live_blocks;

/* RMM writes the per-thread default stream as this, whatever the thread. */
static bool is_per_thread(const char *stream)
{
    return strcasecmp(stream, "0x2") == 0;
}

/* *is_event is false for rows that are none. */
static mend_result read_event(const mend_line_source *source, log_row *row, log_event *event,
                              bool *is_event)
{
    *is_event = false;
    event->is_refusal = false;
    if (source->line[strspn(source->line, " \t")] == 0) {
        return MEND_OK;
    }
    if (!split(source, row)) {
        return mend_line_source_fail(source, "not %d fields: \"%.60s\"", COLUMN_COUNT,
                                     source->line);
    }
    const char *action = row->fields[COLUMN_ACTION];
    event->is_refusal = strcmp(action, "allocate failure") == 0;
    event->is_alloc = strcmp(action, "allocate") == 0;
    if (!event->is_refusal && !event->is_alloc && strcmp(action, "free") != 0 &&
        strcmp(action, "deallocate") != 0) {
        return mend_line_source_fail(source, "unknown action \"%.40s\"", action);
    }
    uint64_t *const numbers[COLUMN_COUNT] = {[COLUMN_POINTER] = &event->pointer,
                                             [COLUMN_SIZE] = &event->size_bytes,
                                             [COLUMN_STREAM] = &event->actor.stream};
    for (int column = COLUMN_POINTER; column < COLUMN_COUNT; column++) {
        const char *text = row->fields[column];
        bool is_nil = column != COLUMN_SIZE && strcmp(text, "(nil)") == 0;
        if (!parse_number(is_nil ? "0" : text, numbers[column])) {
            return fail_field(source, column, text);
        }
    }
    if (event->is_alloc && event->size_bytes > MEND_TRACE_MAX_SIZE_BYTES) {
        return mend_line_source_fail(source, "size %s is above 2^60 bytes",
                                     row->fields[COLUMN_SIZE]);
    }
    event->actor.thread = thread_name(row->fields[COLUMN_THREAD]);
    if (is_per_thread(row->fields[COLUMN_STREAM])) {
        /* Far from all addresses, which streams are. */
        event->actor.stream = ~(event->actor.thread + 1);
    }
    *is_event = true;
    return MEND_OK;
}

static mend_result take_alloc(const mend_line_source *source, mend_trace_builder *builder,
                              mend_trace_detail *detail, live_blocks *live, const log_row *row,
                              const log_event *event)
{
    uint64_t key = mend_trace_key(builder, event->pointer);
    uintptr_t older = (uintptr_t)mend_pointer_map_find(&live->newest, key);
    if (older != 0 && (event->size_bytes != 0 || builder->block_sizes[older - 1] != 0)) {
        return mend_line_source_fail(source, "%s is allocated again before it is freed",
                                     row->fields[COLUMN_POINTER]);
    }
    if (!mend_pointer_map_reserve(&live->newest) || !mend_pointer_map_reserve(&live->older)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    uint32_t block = mend_trace_builder_alloc(builder, event->size_bytes, event->actor);
    mend_result result = judge_builder(source, builder);
    if (result == MEND_OK && older != 0) {
        mend_pointer_map_remove(&live->newest, key);
        mend_pointer_map_insert(&live->older, mend_trace_key(builder, block), (void *)older);
    }
    if (result == MEND_OK) {
        mend_pointer_map_insert(&live->newest, key, (void *)((uintptr_t)block + 1));
    }
    if (result == MEND_OK && detail != NULL) {
        mend_trace_detail_add_place(detail, (mend_trace_place){.address = event->pointer});
    }
    return result;
}

static mend_result take_free(const mend_line_source *source, mend_trace_builder *builder,
                             live_blocks *live, const log_row *row, const log_event *event)
{
    uint64_t key = mend_trace_key(builder, event->pointer);
    uintptr_t found = (uintptr_t)mend_pointer_map_remove(&live->newest, key);
    if (found == 0) {
        return mend_line_source_fail(source, "free of %s, which is not allocated",
                                     row->fields[COLUMN_POINTER]);
    }
    uint32_t block = (uint32_t)(found - 1);
    void *older = mend_pointer_map_remove(&live->older, mend_trace_key(builder, block));
    if (older != NULL) {
        mend_pointer_map_insert(&live->newest, key, older);
    }
    mend_trace_builder_free(builder, block, event->actor);
    return judge_builder(source, builder);
}

/* Reads rows up to the end, or to a last one that was cut off while it was written. */
static mend_result read_rows(mend_line_source *source, mend_trace_builder *builder,
                             mend_trace_detail *detail, live_blocks *live)
{
    log_row row;
    log_event event;
    bool is_event;
    for (;;) {
        mend_result result = mend_line_source_next(source);
        if (result != MEND_OK || source->ended) {
            return result;
        }
        result = read_event(source, &row, &event, &is_event);
        if (result != MEND_OK && source->lacks_end) {
            snprintf(builder->trace->note, sizeof(builder->trace->note),
                     "skipped line %llu, which is cut off",
                     (unsigned long long)source->line_number);
            return MEND_OK;
        }
        if (result == MEND_OK && detail != NULL && event.is_refusal) {
            mend_trace_refusal refusal = {.event = builder->trace->event_count,
                                          .size_bytes = event.size_bytes,
                                          .free_bytes = UINT64_MAX};
            mend_trace_detail_add_refusal(detail, refusal);
        } else if (result == MEND_OK && event.is_refusal) {
            mend_trace_builder_refuse(builder, event.size_bytes, event.actor);
            result = judge_builder(source, builder);
        } else if (result == MEND_OK && is_event) {
            result = event.is_alloc ? take_alloc(source, builder, detail, live, &row, &event)
                                    : take_free(source, builder, live, &row, &event);
        }
        if (result != MEND_OK) {
            return result;
        }
    }
}

mend_result mend_trace_read_rmm_log(mend_line_source *source, mend_trace_detail *detail,
                                    mend_trace **trace)
{
    mend_trace_builder builder;
    mend_trace_builder_init(&builder, source->bytes.path);
    live_blocks live;
    mend_pointer_map_init(&live.newest);
    mend_pointer_map_init(&live.older);
    mend_result result = builder.failure;
    if (result == MEND_OK) {
        result = read_rows(source, &builder, detail, &live);
    }
    if (result == MEND_OK && builder.trace->event_count == 0) {
        result = mend_line_source_fail(source, "the trace has no events");
    }
    if (result == MEND_OK) {
        result = mend_trace_builder_finish(&builder, trace);
    }
    mend_pointer_map_clear(&live.newest);
    mend_pointer_map_clear(&live.older);
    mend_trace_builder_clear(&builder);
    return result;
}
