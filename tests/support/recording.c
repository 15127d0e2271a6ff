#include "tests/support/recording.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool test_events_are_equal(const mend_history_event a[], const mend_history_event b[], size_t count)
{
    const size_t bytes = offsetof(mend_history_event, stack) + sizeof(a->stack);
    size_t at = 0;
    while (at < count && memcmp(&a[at], &b[at], bytes) == 0) {
        at++;
    }
    return at == count;
}

static void add(recorded_events *to, const mend_history_event *event)
{
    if ((to->count & (to->count + 1)) == 0) { /* a power of two less one, or none */
        to->list = reallocarray(to->list, 2 * to->count + 2, sizeof(*event));
    }
    to->list[to->count++] = *event;
}

static uint64_t key_of(const mend_history_event *event)
{
    return (uint64_t)(uintptr_t)event->address;
}

/* The place of the block at the address is found in `at`, as its index + 1. */
static void drop(test_recording *r, const mend_history_event *event)
{
    const uintptr_t found = (uintptr_t)mend_pointer_map_remove(&r->at, key_of(event));
    if (found > 0) {
        const mend_history_event last = r->live.list[--r->live.count];
        if (found - 1 < r->live.count) {
            mend_pointer_map_remove(&r->at, key_of(&last));
            mend_pointer_map_insert(&r->at, key_of(&last), (void *)found);
            r->live.list[found - 1] = last;
        }
    }
}

static void take_events(test_recording *r, mend_record_reader *block)
{
    const bool is_list = block->head.kind == MEND_RECORD_LIVE;
    mend_history_event event;
    while (mend_record_next_event(block, &event)) {
        if (!is_list) {
            add(&r->events, &event);
        }
        if (event.kind == MEND_EVENT_ALLOC || event.kind == MEND_EVENT_FREE) {
            drop(r, &event);
        }
        if (event.kind == MEND_EVENT_ALLOC && mend_pointer_map_reserve(&r->at)) {
            add(&r->live, &event);
            mend_pointer_map_insert(&r->at, key_of(&event), (void *)(uintptr_t)r->live.count);
        }
    }
}

static void take_block(test_recording *r, mend_record_reader *block)
{
    uint32_t around = 0;
    switch (block->head.kind) {
    case MEND_RECORD_RUN:
        memcpy(&r->run, block->at, sizeof(r->run));
        break;
    case MEND_RECORD_FAILURE:
        r->failures += mend_record_read_failure(block, &r->failure);
        break;
    case MEND_RECORD_SCOPES:
        while (mend_record_next_scope(block, &around, r->scope)) {
        }
        break;
    case MEND_RECORD_NAMES:
        while (mend_record_next_name(block, &r->name)) {
        }
        break;
    case MEND_RECORD_LIVE:
    case MEND_RECORD_EVENTS:
        take_events(r, block);
        break;
    default:
        r->has_ended = true;
        r->is_exit = block->head.first == 1;
        break;
    }
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat about = {0};
    *size = 0;
    if (file == NULL || fstat(fileno(file), &about) != 0) {
        return NULL;
    }
    uint8_t *bytes = malloc((size_t)about.st_size + 1);
    *size = bytes == NULL ? 0 : fread(bytes, 1, (size_t)about.st_size, file);
    fclose(file);
    return bytes;
}

bool test_recording_read(const char *path, test_recording *r)
{
    *r = (test_recording){.blocks = 0};
    mend_pointer_map_init(&r->at);
    size_t size;
    uint8_t *bytes = read_file(path, &size);
    mend_record_walk walk;
    mend_record_reader block;
    bool all = true;
    mend_record_walk_begin(&walk, bytes, size);
    while (mend_record_walk_next(&walk, &block)) {
        r->first = r->blocks == 0 ? block.head.number : r->first;
        all = all && block.head.number == r->first + r->blocks;
        r->blocks++;
        r->lost = block.head.lost;
        take_block(r, &block);
    }
    free(bytes);
    return all && r->blocks > 0;
}

void test_recording_clear(test_recording *r)
{
    free(r->events.list);
    free(r->live.list);
    mend_pointer_map_clear(&r->at);
    *r = (test_recording){.blocks = 0};
}

bool test_recording_write(const char *path, uint64_t events)
{
    enum { SLOTS = 1 << 18 };
    static mend_record_file to;
    static bool lives[SLOTS];
    const mend_record_run run = {.memory_bytes = UINT64_C(1) << 36,
                                 .limit_bytes = UINT64_C(1) << 36};
    memset(lives, 0, sizeof(lives));
    to = (mend_record_file){.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    mend_record_fill(&to.block, MEND_RECORD_RUN, &run, sizeof(run));
    mend_record_write(&to);
    mend_record_begin(&to.block, MEND_RECORD_EVENTS);
    for (uint64_t i = 1; i <= events && to.error == 0; i++) {
        const uint64_t slot = i * 7 % (SLOTS + 1) % SLOTS;
        const mend_history_event event = {
            .sequence = i,
            .time_ns = i * 1000,
            .kind = lives[slot] ? MEND_EVENT_FREE : MEND_EVENT_ALLOC,
            .address = (void *)(uintptr_t)((slot + 1) << 24),
            .size_bytes = (slot % 97 + 1) << 12,
            .requested_bytes = (slot % 97 + 1) << 12,
        };
        lives[slot] = !lives[slot];
        mend_record_put(&to, &event);
    }
    mend_record_write(&to);
    return close(to.file) == 0 && to.error == 0;
}
