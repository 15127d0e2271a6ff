#include "lab/trace/recording.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/align.h"
#include "base/error.h"
#include "base/words.h"
#include "lab/support/room.h"
#include "lab/trace/builder.h"
#include "record/recording.h"

bool mend_trace_is_recording(const mend_byte_source *source)
{
    uint64_t mark = 0;
    if (source->end - source->start >= sizeof(mark)) {
        memcpy(&mark, source->buffer + source->start, sizeof(mark));
    }
    return mark == MEND_RECORD_MARK;
}

/* All that is left of a source. The caller frees *bytes, after a failure too. */
static mend_result read_all(mend_byte_source *source, uint8_t **bytes, size_t *size)
{
    size_t room = 0;
    *bytes = NULL;
    *size = 0;
    for (;;) {
        const char *reason = mend_byte_source_fill(source);
        const size_t more = source->end - source->start;
        if (reason != NULL) {
            return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: byte %llu: %s", source->path,
                             (unsigned long long)mend_byte_source_position(source), reason);
        }
        if (more == 0) {
            return MEND_OK;
        }
        if (*size + more > room) {
            room = 2 * (*size + more);
            uint8_t *grown = realloc(*bytes, room);
            if (grown == NULL) {
                return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %s",
                                 source->path);
            }
            *bytes = grown;
        }
        memcpy(*bytes + *size, source->buffer + source->start, more);
        *size += more;
        source->start = source->end;
    }
}

/* ---- scopes ---------------------------------------------------------------------------------- */

/* The paths of scopes ("step/forward") by their numbers. */
typedef struct scope_paths {
    char (*list)[MEND_TRACE_LABEL_BYTES];
    uint32_t count;
} scope_paths;

/* False if malloc fails. Repeated entries, after a lap of the file, are equal. */
static bool name_scopes(scope_paths *paths, mend_record_reader *block)
{
    const uint64_t end = (uint64_t)block->head.first + block->head.count;
    if (block->head.first == 0 || end > MEND_NAMES_MOST + 1) {
        return true;
    }
    if (end > paths->count) {
        char(*grown)[MEND_TRACE_LABEL_BYTES] = reallocarray(paths->list, end, sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        memset(grown + paths->count, 0, (end - paths->count) * sizeof(*grown));
        paths->list = grown;
        paths->count = (uint32_t)end;
    }
    char name[MEND_SCOPE_NAME_BYTES];
    uint32_t around = 0;
    for (uint32_t i = block->head.first; mend_record_next_scope(block, &around, name); i++) {
        const bool has_around = around > 0 && around < i;
        snprintf(paths->list[i], sizeof(*paths->list), "%.*s%s%s",
                 MEND_TRACE_LABEL_BYTES - MEND_SCOPE_NAME_BYTES - 1,
                 has_around ? paths->list[around] : "", has_around ? "/" : "", name);
    }
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The texts that the file has for numbers of one kind. */
typedef struct number_names {
    mend_pointer_map at; /* from the key of a number to its index + 1 */
    mend_name_entry *list;
    size_t count;
    size_t room;
} number_names;

static const char *name_of(const number_names *names, uint64_t key)
{
    const uintptr_t found = (uintptr_t)mend_pointer_map_find(&names->at, key);
    return found != 0 ? names->list[found - 1].name : "";
}

/* False if malloc fails. */
static bool set_name(number_names *names, uint64_t key, const mend_name_entry *name)
{
    const uintptr_t found = (uintptr_t)mend_pointer_map_find(&names->at, key);
    if (found != 0) {
        names->list[found - 1] = *name;
        return true;
    }
    mend_name_entry *grown =
        mend_with_room(names->list, names->count, &names->room, sizeof(*grown));
    if (grown == NULL || !mend_pointer_map_reserve(&names->at)) {
        names->list = grown != NULL ? grown : names->list;
        return false;
    }
    names->list = grown;
    names->list[names->count++] = *name;
    mend_pointer_map_insert(&names->at, key, (void *)(uintptr_t)names->count);
    return true;
}

/* ---- the trace ------------------------------------------------------------------------------- */

typedef struct recording_reader {
    const uint8_t *bytes;
    size_t size;
    mend_trace_builder builder;
    mend_trace_detail *detail; /* NULL: none */
    mend_record_run run;
    scope_paths scopes;
    number_names tags, stacks;
    bool has_numbers;           /* a block has a tag or a stack */
    bool has_chunks;            /* an event says that one was created */
    mend_pointer_map live;      /* from the key of an address to the number of its block + 1 */
    mend_history_event *before; /* blocks from before the first event */
    size_t before_count;
    size_t before_room;
    uint64_t first;    /* number of the first event. 0: none yet */
    uint64_t last;     /* and of the one before this */
    uint64_t gaps;     /* events that are missing between those */
    uint64_t unknown;  /* frees of blocks that are not known */
    uint64_t pages;    /* events of ranges */
    uint64_t anywhere; /* allocations without a stream */
    uint64_t unlisted; /* blocks that lived when the last lap began, and nothing tells of */
    uint64_t refused;  /* number of the last event of a request that failed */
} recording_reader;

static mend_result fail_of_memory(const recording_reader *r)
{
    return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %s",
                     r->builder.trace->name);
}

static uint64_t key_of(const recording_reader *r, const mend_history_event *event)
{
    return mend_trace_key(&r->builder, (uint64_t)(uintptr_t)event->address);
}

static mend_trace_actor actor_of(recording_reader *r, const mend_history_event *event)
{
    const bool is_anywhere = event->stream == MEND_NO_STREAM;
    r->anywhere += is_anywhere && event->kind == MEND_EVENT_ALLOC;
    return (mend_trace_actor){.stream = is_anywhere ? 0 : (uint64_t)(uintptr_t)event->stream};
}

/* The block at the address lives no more. 0: there was none. */
static uintptr_t leave(recording_reader *r, const mend_history_event *event)
{
    return (uintptr_t)mend_pointer_map_remove(&r->live, key_of(r, event));
}

static mend_result enter(recording_reader *r, const mend_history_event *event, uint32_t block)
{
    if (!mend_pointer_map_reserve(&r->live)) {
        return fail_of_memory(r);
    }
    leave(r, event);
    mend_pointer_map_insert(&r->live, key_of(r, event), (void *)((uintptr_t)block + 1));
    return MEND_OK;
}

static mend_result add_before(recording_reader *r, const mend_history_event *event)
{
    mend_history_event *grown =
        mend_with_room(r->before, r->before_count, &r->before_room, sizeof(*grown));
    if (grown == NULL) {
        return fail_of_memory(r);
    }
    r->before = grown;
    r->before[r->before_count++] = *event;
    return MEND_OK;
}

/* First look: finds the blocks from before. The lists of laps name blocks older than the first
 * event, most of them again and again. A free shows the others, unless their allocation may be
 * among lost events. */
static mend_result look_at(recording_reader *r, const mend_history_event *event, bool is_list)
{
    mend_result result = MEND_OK;
    r->has_numbers = r->has_numbers ||
                     (event->kind == MEND_EVENT_ALLOC && (event->tag != 0 || event->stack != 0));
    r->has_chunks = r->has_chunks || event->kind == MEND_EVENT_CREATE;
    if (is_list) {
        const bool is_new = (r->first == 0 || event->sequence < r->first) &&
                            mend_pointer_map_find(&r->live, key_of(r, event)) == NULL;
        result = is_new ? add_before(r, event) : MEND_OK;
        return result == MEND_OK ? enter(r, event, 0) : result;
    }
    r->first = r->first == 0 ? event->sequence : r->first;
    r->gaps += r->last != 0 && event->sequence > r->last + 1 ? event->sequence - r->last - 1 : 0;
    r->last = event->sequence;
    if (event->kind == MEND_EVENT_ALLOC) {
        return enter(r, event, 0);
    }
    if (event->kind == MEND_EVENT_FREE && leave(r, event) == 0 && r->gaps == 0) {
        result = add_before(r, event);
    }
    return result;
}

/* False if malloc fails. */
static bool take_names(recording_reader *r, mend_record_reader *block)
{
    mend_name_entry name;
    bool has_memory = true;
    while (has_memory && mend_record_next_name(block, &name)) {
        if (name.kind == MEND_NAME_TAG && name.number != UINT64_MAX) {
            has_memory = set_name(&r->tags, mend_trace_key(&r->builder, name.number), &name);
        } else if (name.kind == MEND_NAME_STACK && name.number != UINT64_MAX) {
            has_memory = set_name(&r->stacks, mend_trace_key(&r->builder, name.number), &name);
        } else if (name.kind == MEND_NAME_STREAM && r->detail != NULL) {
            mend_trace_detail_name_stream(r->detail, &name);
        }
    }
    return has_memory;
}

/* The name of a tag or a stack, or `word` and its number. "" of 0. */
static void write_named(const recording_reader *r, const number_names *names, const char *word,
                        uint64_t number, char text[MEND_NAME_BYTES])
{
    const char *name = number != 0 && number != UINT64_MAX
                           ? name_of(names, mend_trace_key(&r->builder, number))
                           : "";
    text[0] = 0;
    if (name[0] != 0) {
        snprintf(text, MEND_NAME_BYTES, "%s", name);
    } else if (number != 0) {
        snprintf(text, MEND_NAME_BYTES, "%s %llu", word, (unsigned long long)number);
    }
}

/* The scope, the tag and the stack, as the library names owners (record/owners.c). */
static mend_trace_label label_of(const recording_reader *r, const mend_history_event *event)
{
    mend_trace_label label = {.text = ""};
    const bool is_scope_known = event->scope < r->scopes.count;
    const char *scope = event->scope == 0 ? ""
                        : is_scope_known  ? r->scopes.list[event->scope]
                                          : "(scopes whose names are not in the file)";
    char tag[MEND_NAME_BYTES];
    char stack[MEND_NAME_BYTES];
    write_named(r, &r->tags, "tag", event->tag, tag);
    write_named(r, &r->stacks, "stack", event->stack, stack);
    /* Of a long path the stack's part is left. */
    const size_t left_bytes = sizeof(label.text) - (stack[0] != 0 ? strlen(stack) + 2 : 0);
    uint8_t *bytes = label.part_bytes;
    bytes[MEND_TRACE_SCOPE] = (uint8_t)mend_words_join(label.text, left_bytes, scope);
    bytes[MEND_TRACE_TAG] = (uint8_t)mend_words_join(label.text, left_bytes, tag);
    bytes[MEND_TRACE_STACK] = (uint8_t)mend_words_join(label.text, sizeof(label.text), stack);
    if (label.text[0] == 0 && r->scopes.count > 0) {
        snprintf(label.text, sizeof(label.text), "(outside of scopes)");
    } else if (label.text[0] == 0) {
        snprintf(label.text, sizeof(label.text), "blocks of %s",
                 mend_words_amount(event->size_bytes).text);
    }
    return label;
}

static void tell_place(recording_reader *r, const mend_history_event *event)
{
    if (r->detail == NULL) {
        return;
    }
    mend_trace_place place = {.address = (uint64_t)(uintptr_t)event->address};
    if (r->scopes.count > 0 || r->has_numbers) {
        const mend_trace_label label = label_of(r, event);
        place.owner = mend_trace_detail_owner(r->detail, &label);
        for (int part = 0; part < MEND_TRACE_PARTS; part++) {
            r->detail->has_part[part] |= label.part_bytes[part] > 0;
        }
    }
    mend_trace_detail_add_place(r->detail, place);
}

static mend_result take_alloc(recording_reader *r, const mend_history_event *event)
{
    const uintptr_t older = leave(r, event); /* its free is lost */
    if (older != 0) {
        mend_trace_builder_free(&r->builder, (uint32_t)(older - 1), actor_of(r, event));
    }
    const uint32_t block =
        mend_trace_builder_alloc(&r->builder, event->requested_bytes, actor_of(r, event));
    tell_place(r, event);
    return r->builder.failure == MEND_OK ? enter(r, event, block) : r->builder.failure;
}

/* Only a recording from the start of the pool, without gaps, knows all of them. */
static bool knows_memory(const recording_reader *r)
{
    return r->detail != NULL && r->first == 1 && r->gaps == 0;
}

static void tell_refusal(recording_reader *r, const mend_history_event *event)
{
    r->refused = event->sequence;
    r->builder.trace->failure[0] = 0;
    if (r->detail != NULL) {
        mend_trace_detail_add_refusal(r->detail,
                                      (mend_trace_refusal){.event = r->builder.trace->event_count,
                                                           .segments = r->detail->segment_count,
                                                           .number = event->sequence,
                                                           .size_bytes = event->size_bytes,
                                                           .free_bytes = UINT64_MAX,
                                                           .stream = actor_of(r, event).stream});
    } else {
        mend_trace_builder_refuse(&r->builder, event->size_bytes, actor_of(r, event));
    }
}

/* Why a request failed: all about the last one, and of others the bytes above the largest fitting
 * size. */
static void take_failure(recording_reader *r, const mend_record_reader *block)
{
    mend_trace *trace = r->builder.trace;
    mend_event_failure failure;
    if (!mend_record_read_failure(block, &failure)) {
        return;
    }
    const bool is_last = failure.sequence == r->refused;
    if (is_last) {
        snprintf(trace->failure, sizeof(trace->failure), "%s", failure.message);
    }
    for (size_t i = r->detail != NULL ? r->detail->refusal_count : 0; i-- > 0;) {
        mend_trace_refusal *refusal = &r->detail->refusals[i];
        if (refusal->number == failure.sequence) {
            mend_oom_report *oom_report = &r->detail->oom_report;
            memcpy(&oom_report->requested_bytes, failure.numbers, sizeof(failure.numbers));
            refusal->short_bytes = oom_report->requested_bytes - oom_report->fitting_bytes;
        }
        if (refusal->number <= failure.sequence) {
            return;
        }
    }
}

/* Second pass: the events, after the blocks from before. */
static mend_result take(recording_reader *r, const mend_history_event *event)
{
    uintptr_t found;
    switch (event->kind) {
    case MEND_EVENT_ALLOC:
        return take_alloc(r, event);
    case MEND_EVENT_FREE:
        found = leave(r, event);
        r->unknown += found == 0;
        if (found != 0) {
            mend_trace_builder_free(&r->builder, (uint32_t)(found - 1), actor_of(r, event));
        }
        return r->builder.failure;
    case MEND_EVENT_MAP:
    case MEND_EVENT_UNMAP:
    case MEND_EVENT_CREATE:
    case MEND_EVENT_RELEASE:
    case MEND_EVENT_SLEEP:
    case MEND_EVENT_WAKE:
    case MEND_EVENT_EXCHANGE:
        if (knows_memory(r)) {
            mend_trace_detail_add_change(r->detail, event, r->builder.trace->event_count);
        }
        return MEND_OK;
    case MEND_EVENT_HOST_WAIT:
        if (r->detail != NULL) {
            mend_trace_detail_add_segment(
                r->detail, (mend_trace_segment){.event = r->builder.trace->event_count,
                                                .waited_ns = event->duration_ns,
                                                .is_wait = true});
        }
        return MEND_OK;
    case MEND_EVENT_OUT_OF_MEMORY:
        tell_refusal(r, event);
        return r->builder.failure;
    default:
        r->pages += event->kind == MEND_EVENT_COMMIT || event->kind == MEND_EVENT_DECOMMIT;
        return MEND_OK;
    }
}

/* The list of a lap, or its existing part, has been read. */
static void note_unlisted(recording_reader *r)
{
    r->unlisted = r->run.live_blocks - mend_min_u64(r->live.count, r->run.live_blocks);
}

static mend_result read_blocks(recording_reader *r, bool is_first)
{
    mend_record_walk walk;
    mend_record_reader block;
    mend_history_event event;
    mend_result result = MEND_OK;
    bool is_beginning = false;
    mend_record_walk_begin(&walk, r->bytes, r->size);
    while (result == MEND_OK && mend_record_walk_next(&walk, &block)) {
        const bool is_list = block.head.kind == MEND_RECORD_LIVE;
        if (block.head.kind == MEND_RECORD_RUN && block.head.bytes >= sizeof(r->run)) {
            memcpy(&r->run, block.at, sizeof(r->run));
            is_beginning = is_first;
        }
        if (block.head.kind == MEND_RECORD_FAILURE && !is_first) {
            take_failure(r, &block);
        }
        if (is_first &&
            ((block.head.kind == MEND_RECORD_SCOPES && !name_scopes(&r->scopes, &block)) ||
             (block.head.kind == MEND_RECORD_NAMES && !take_names(r, &block)))) {
            result = fail_of_memory(r);
        }
        if (!is_list && block.head.kind != MEND_RECORD_EVENTS) {
            continue;
        }
        if (is_beginning && !is_list) {
            is_beginning = false;
            note_unlisted(r);
        }
        while (result == MEND_OK && mend_record_next_event(&block, &event)) {
            result = is_first ? look_at(r, &event, is_list) : is_list ? MEND_OK : take(r, &event);
        }
    }
    if (is_beginning) {
        note_unlisted(r);
    }
    return result;
}

static void write_note(const recording_reader *r)
{
    mend_trace *trace = r->builder.trace;
    const struct {
        uint64_t count;
        const char *what;
    } parts[] = {{r->gaps, "lost events"},
                 {r->unlisted, "live blocks that did not fit into the file"},
                 {r->unknown, "frees of blocks that are not known"},
                 {r->pages, "events of growable ranges"},
                 {r->anywhere, "allocations without a stream, taken for the default stream's"}};
    size_t length = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (parts[i].count > 0) {
            length += (size_t)snprintf(trace->note + length, sizeof(trace->note) - length,
                                       "%s%s: %llu", length > 0 ? ", " : "", parts[i].what,
                                       (unsigned long long)parts[i].count);
        }
    }
}

static mend_result make_trace(recording_reader *r, mend_trace **trace)
{
    mend_result result = r->builder.failure == MEND_OK ? read_blocks(r, true) : r->builder.failure;
    mend_pointer_map_clear(&r->live);
    for (size_t i = 0; result == MEND_OK && i < r->before_count; i++) {
        result = take_alloc(r, &r->before[i]);
    }
    if (result == MEND_OK && r->detail != NULL) {
        r->detail->is_recording = true;
        r->detail->is_expandable = true; /* blocks continue from one chunk into the next */
        r->detail->capacity_bytes = r->run.limit_bytes;
        r->detail->before_events = r->before_count;
        r->detail->has_places = r->has_chunks && knows_memory(r);
    }
    result = result == MEND_OK ? read_blocks(r, false) : result;
    if (result == MEND_OK && r->builder.trace->event_count == 0) {
        result = mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: the recording has no allocations",
                           r->builder.trace->name);
    }
    if (result == MEND_OK) {
        write_note(r);
        result = mend_trace_builder_finish(&r->builder, trace);
    }
    return result;
}

/* Until the process ends no pool of it records over the file, whatever its environment says. */
static void keep_from_recorders(const char *path)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    (void)(file >= 0 && flock(file, LOCK_SH | LOCK_NB) == 0); /* a recorder may have it already */
}

mend_result mend_trace_read_recording(mend_byte_source *source, mend_trace_detail *detail,
                                      mend_trace **trace)
{
    keep_from_recorders(source->path);
    uint8_t *bytes;
    recording_reader r = {.detail = detail};
    mend_result result = read_all(source, &bytes, &r.size);
    r.bytes = bytes;
    if (result == MEND_OK) {
        mend_trace_builder_init(&r.builder, source->path);
        mend_pointer_map_init(&r.live);
        mend_pointer_map_init(&r.tags.at);
        mend_pointer_map_init(&r.stacks.at);
        result = make_trace(&r, trace);
        mend_pointer_map_clear(&r.live);
        mend_pointer_map_clear(&r.tags.at);
        mend_pointer_map_clear(&r.stacks.at);
        mend_trace_builder_clear(&r.builder);
    }
    free(r.scopes.list);
    free(r.tags.list);
    free(r.stacks.list);
    free(r.before);
    free(bytes);
    return result;
}

/* ---- facts ----------------------------------------------------------------------------------- */

static void note(mend_recording_facts *facts, const mend_history_event *event)
{
    facts->began_ns = facts->first == 0 ? event->time_ns : facts->began_ns;
    facts->first = facts->first == 0 ? event->sequence : facts->first;
    facts->last = event->sequence;
    facts->ended_ns = event->time_ns;
    if (event->kind > 0 && event->kind < MEND_EVENT_KINDS) {
        facts->events[event->kind]++;
    }
}

static void look(const uint8_t *bytes, size_t size, mend_recording_facts *facts)
{
    mend_record_walk walk;
    mend_record_reader block;
    mend_history_event event;
    mend_record_walk_begin(&walk, bytes, size);
    while (mend_record_walk_next(&walk, &block)) {
        facts->lost = block.head.lost;
        facts->has_ended = block.head.kind == MEND_RECORD_END;
        facts->is_exit = facts->has_ended && block.head.first == 1;
        if (block.head.kind == MEND_RECORD_RUN && block.head.bytes >= sizeof(facts->run)) {
            memcpy(&facts->run, block.at, sizeof(facts->run));
        } else if (block.head.kind == MEND_RECORD_SCOPES) {
            facts->scopes = (uint64_t)block.head.first + block.head.count - 1;
        }
        while (block.head.kind == MEND_RECORD_EVENTS && mend_record_next_event(&block, &event)) {
            note(facts, &event);
        }
    }
}

mend_result mend_recording_look(const char *path, mend_recording_facts *facts)
{
    mend_byte_source source;
    uint8_t *bytes = NULL;
    size_t size = 0;
    *facts = (mend_recording_facts){.first = 0};
    mend_result result = mend_byte_source_open(&source, path);
    if (result != MEND_OK) {
        return result;
    }
    const char *reason = mend_byte_source_fill(&source);
    if (reason != NULL || !mend_trace_is_recording(&source)) {
        result = mend_fail(MEND_ERROR_INVALID_ARGUMENT, "%s: %s", path,
                           reason != NULL ? reason : "not a recording of Mend");
    }
    result = result == MEND_OK ? read_all(&source, &bytes, &size) : result;
    if (result == MEND_OK) {
        look(bytes, size, facts);
    }
    free(bytes);
    mend_byte_source_close(&source);
    return result;
}
