/* What the program does with growable ranges: a committed page is one of its blocks, used and
 * shared as any other; only its beginning and its end are of its own. */
#include "tests/model/program_state.h"

static uint64_t draw_page(program *p)
{
    const uint64_t page = p->world.sim_config.page_bytes;
    static const uint64_t pages[] = {1, 1, 3, 8, 16};
    return pages[program_below(p, 5)] * page;
}

/* Addresses for more pages than the program uses. */
static void create(program *p, program_range *range)
{
    program_call call = {
        .kind = CALL_RANGE_CREATE, .size_bytes = 32 * MEND_MIB, .page_bytes = draw_page(p)};
    if (program_try(p, 0, &call) != MEND_OK) {
        program_claim(p, call.faulty, "a range: %s (%s)", mend_result_name(call.result),
                      call.message);
        return;
    }
    mend_range_info info = MEND_RANGE_INFO_INIT;
    mend_range_get_info(call.range, &info);
    *range = (program_range){call.range, (uint64_t)(uintptr_t)info.base, call.page_bytes,
                             8 + program_below(p, 40)};
}

void program_name_page(const program *p, const program_block *page, program_call *call)
{
    const program_range *range = &p->ranges[page->range];
    call->range = range->range;
    call->offset_bytes = page->address - range->base;
    call->size_bytes = page->size_bytes;
}

static int free_stream(program *p)
{
    int stream = program_draw_stream(p);
    return p->streams[stream].captured ? -1 : stream;
}

/* The pages that the program does not have yet are its blocks from now on. */
static void enter(program *p, int slot, const program_call *call, int stream)
{
    const program_range *range = &p->ranges[slot];
    for (uint64_t at = 0; at < call->size_bytes; at += range->page_bytes) {
        const uint64_t address = range->base + call->offset_bytes + at;
        if (program_is_unowned(p, address, range->page_bytes)) {
            p->blocks[p->block_count++] = (program_block){.address = address,
                                                          .size_bytes = range->page_bytes,
                                                          .requested_bytes = range->page_bytes,
                                                          .allocated_on = call->stream,
                                                          .home = stream,
                                                          .range = slot};
        }
    }
}

static uint64_t missing_bytes(const program *p, const program_range *range, uint64_t offset_bytes,
                              uint64_t size_bytes)
{
    uint64_t bytes = 0;
    for (uint64_t at = 0; at < size_bytes; at += range->page_bytes) {
        const uint64_t address = range->base + offset_bytes + at;
        bytes += program_is_unowned(p, address, range->page_bytes) ? range->page_bytes : 0;
    }
    return bytes;
}

void program_commit(program *p)
{
    const int slot = NO_RANGE + 1 + (int)program_below(p, PROGRAM_RANGES - 1);
    const program_range *range = &p->ranges[slot];
    const int stream = free_stream(p);
    if (!p->config->ranges || range->range == NULL || stream < 0) {
        return;
    }
    const uint64_t first = program_below(p, range->pages);
    const uint64_t most = mend_min_u64(range->pages - first, program_one_in(p, 6) ? 24 : 4);
    const uint64_t count = 1 + program_below(p, most);
    if (p->block_count + (int)count > PROGRAM_BLOCKS) {
        return;
    }
    program_call call = {.kind = CALL_COMMIT,
                         .stream = program_handle(p, stream),
                         .range = range->range,
                         .offset_bytes = first * range->page_bytes,
                         .size_bytes = count * range->page_bytes};
    if (program_try(p, program_thread_of(p, stream), &call) == MEND_OK) {
        enter(p, slot, &call, stream);
        return;
    }
    const bool is_held = call.result == MEND_ERROR_OUT_OF_ADDRESSES && program_is_capturing(p);
    if (!call.faulty && !is_held) {
        call.size_bytes = missing_bytes(p, range, call.offset_bytes, call.size_bytes);
        program_check_refusal(p, &call);
    }
}

/* A stream behind all uses of the range's pages; -1: a capture or a graph has one of them. */
static int stream_behind(program *p, int slot)
{
    const int stream = free_stream(p);
    for (int i = 0; i < p->block_count && stream >= 0; i++) {
        const program_block *page = &p->blocks[i];
        if (page->range == slot && (page->graph != NO_GRAPH || program_is_captured(p, page))) {
            return -1;
        }
    }
    for (int i = 0; i < p->block_count && stream >= 0; i++) {
        program_block *page = &p->blocks[i];
        if (page->range == slot) {
            program_join_readers(p, page, program_one_in(p, 4));
            program_move_to(p, page, stream);
        }
    }
    return stream;
}

static void destroy(program *p, int slot)
{
    const int stream = stream_behind(p, slot);
    if (stream < 0) {
        return;
    }
    program_call call = {.kind = CALL_RANGE_DESTROY,
                         .stream = program_handle(p, stream),
                         .range = p->ranges[slot].range};
    program_must(p, program_thread_of(p, stream), &call);
    p->ranges[slot].range = NULL;
    for (int i = p->block_count - 1; i >= 0; i--) {
        if (p->blocks[i].range == slot) {
            p->blocks[i] = p->blocks[--p->block_count];
        }
    }
}

void program_change_ranges(program *p)
{
    const int slot = NO_RANGE + 1 + (int)program_below(p, PROGRAM_RANGES - 1);
    if (!p->config->ranges) {
        return;
    }
    if (p->ranges[slot].range == NULL) {
        create(p, &p->ranges[slot]);
    } else if (program_one_in(p, 3)) {
        destroy(p, slot);
    }
}

void program_drop_ranges(program *p)
{
    for (int slot = NO_RANGE + 1; slot < PROGRAM_RANGES; slot++) {
        if (p->ranges[slot].range != NULL && p->outcome->holds) {
            destroy(p, slot);
        }
    }
}
