/* What the program does with blocks: every use is ordered, or declared, as the pool's users do. */
#include "tests/model/program_state.h"

static void *pointer_of(const program_block *block)
{
    return (void *)(uintptr_t)block->address;
}

static uint32_t bit(int stream)
{
    return UINT32_C(1) << stream;
}

static void launch(program *p, program_block *block, mend_sim_work_kind kind, int stream)
{
    uint64_t finish_ns =
        mend_sim_now_ns(p->world.sim) + program_below(p, p->streams[stream].longest_ns);
    program_call call = {.kind = CALL_LAUNCH,
                         .stream = program_handle(p, stream),
                         .work = {.kind = kind,
                                  .address = block->address,
                                  .size_bytes = block->size_bytes,
                                  .tag = block->tag,
                                  .finish_ns = finish_ns}};
    program_drive(p, program_thread_of(p, stream), &call);
    block->used = true;
}

static void write_anew(program *p, program_block *block)
{
    block->tag = ++p->last_tag;
    block->written = true;
    launch(p, block, MEND_SIM_WORK_WRITE, block->home);
}

static void verify(program *p, program_block *block, int stream)
{
    launch(p, block, block->written ? MEND_SIM_WORK_VERIFY : MEND_SIM_WORK_TOUCH, stream);
}

static uint64_t draw_size(program *p)
{
    uint64_t draw = program_below(p, 16);
    if (draw < 4) {
        return 1 + program_below(p, 2000);
    }
    if (draw < 7) {
        return 1 + program_below(p, 2 * p->world.placement.small_request_bytes);
    }
    if (draw < 12) {
        return 1 + program_below(p, p->world.placement.chunk_bytes);
    }
    if (draw < 15) {
        return 1 + program_below(p, 4 * p->world.placement.chunk_bytes);
    }
    return 1 + program_below(p, p->world.sim_config.memory_bytes / 3);
}

void program_check_refusal(program *p, const program_call *call)
{
    if (!program_claim(p, call->result == MEND_ERROR_OUT_OF_MEMORY, "an allocation: %s",
                       mend_result_name(call->result)) ||
        program_is_capturing(p)) {
        return;
    }
    mend_stats stats = mend_world_stats(&p->world);
    if (stats.groups > 0 || stats.captures > 0) {
        return; /* what they keep is free, but not for this */
    }
    if (call->kind == CALL_COMMIT && stats.reserved_bytes > stats.limit_bytes) {
        return; /* chunks that are no pages cannot be made again */
    }
    uint64_t page = p->world.sim_config.page_bytes;
    uint64_t under_limit = stats.limit_bytes > stats.reserved_bytes
                               ? mend_align_down(stats.limit_bytes - stats.reserved_bytes, page)
                               : 0;
    uint64_t on_device = 0;
    uint64_t total = 0;
    p->driver->memory_info(p->driver, &on_device, &total);
    uint64_t room = stats.free_empty_bytes + mend_min_u64(under_limit, on_device);
    program_claim(p, call->size_bytes > room,
                  "%llu bytes were refused with %llu in whole chunks and room for %llu (%s)",
                  (unsigned long long)call->size_bytes, (unsigned long long)stats.free_empty_bytes,
                  (unsigned long long)mend_min_u64(under_limit, on_device), call->message);
}

bool program_is_unowned(const program *p, uint64_t address, uint64_t size_bytes)
{
    for (int i = 0; i < p->block_count; i++) {
        const program_block *other = &p->blocks[i];
        if (address < other->address + other->size_bytes && other->address < address + size_bytes) {
            return false;
        }
    }
    return true;
}

program_block *program_alloc_on(program *p, int stream)
{
    if (p->block_count == PROGRAM_BLOCKS) {
        return NULL;
    }
    program_call call = {.kind = CALL_ALLOC,
                         .stream = program_handle(p, stream),
                         .size_bytes = draw_size(p),
                         .alignment_bytes =
                             program_one_in(p, 8) ? UINT64_C(1) << program_below(p, 18) : 512};
    if (program_try(p, program_thread_of(p, stream), &call) != MEND_OK) {
        if (!call.faulty) {
            program_check_refusal(p, &call);
        }
        return NULL;
    }
    uint64_t address = (uint64_t)(uintptr_t)call.pointer;
    uint64_t size_bytes = mend_align_up(call.size_bytes, 512);
    program_claim(p, address % mend_max_u64(call.alignment_bytes, 512) == 0, "a block at 0x%llx",
                  (unsigned long long)address);
    program_claim(p, program_is_unowned(p, address, size_bytes),
                  "a block lies in another, at 0x%llx", (unsigned long long)address);
    program_block *block = &p->blocks[p->block_count++];
    *block = (program_block){.address = address,
                             .size_bytes = size_bytes,
                             .requested_bytes = call.size_bytes,
                             .allocated_on = call.stream,
                             .home = stream};
    return block;
}

void program_alloc(program *p)
{
    int stream = program_draw_stream(p);
    if (p->streams[stream].captured) { /* memory that the graph's launches may write */
        program_alloc_captured(p, stream);
        return;
    }
    program_block *block = program_alloc_on(p, stream);
    if (block != NULL && !program_one_in(p, 5)) {
        write_anew(p, block); /* the others are used later, or by nobody */
    }
}

static program_block *draw_block(program *p)
{
    return p->block_count == 0 ? NULL : &p->blocks[program_below(p, (uint64_t)p->block_count)];
}

static void declare(program *p, program_block *block, int stream)
{
    block->declared |= bit(stream);
    block->known_to |= bit(stream);
    if (p->config->sin == SIN_NO_RECORD) {
        return;
    }
    program_call call = {.kind = CALL_RECORD_STREAM,
                         .stream = program_handle(p, stream),
                         .pointer = pointer_of(block)};
    if (block->range != NO_RANGE) {
        call.kind = CALL_RECORD_PAGES;
        program_name_page(p, block, &call);
    }
    program_must(p, program_thread_of(p, stream), &call);
}

void program_join_readers(program *p, program_block *block, bool declared_too)
{
    for (int i = 0; i < p->stream_count; i++) {
        bool joins = declared_too || (block->declared & bit(i)) == 0;
        if ((block->readers & bit(i)) != 0 && joins && !p->streams[i].captured) {
            program_order(p, i, block->home);
            block->readers &= ~bit(i);
        }
    }
}

bool program_is_captured(const program *p, const program_block *block)
{
    bool captured = p->streams[block->home].captured;
    for (int i = 0; i < p->stream_count; i++) {
        captured |= (block->readers & bit(i)) != 0 && p->streams[i].captured;
    }
    return captured;
}

void program_use(program *p)
{
    program_block *block = draw_block(p);
    if (block == NULL || program_is_captured(p, block)) {
        return;
    }
    verify(p, block, block->home);
    if (!block->frozen && program_one_in(p, 2)) {
        program_join_readers(p, block, true);
        write_anew(p, block);
    }
}

void program_share(program *p)
{
    program_block *block = draw_block(p);
    int reader = program_draw_stream(p);
    if (block == NULL || program_is_captured(p, block) || p->streams[reader].captured ||
        reader == block->home) {
        return;
    }
    bool declared = !program_one_in(p, 4);
    block->declared &= ~bit(reader);
    bool before = program_one_in(p, 2);
    program_order(p, block->home, reader);
    if (declared && before) {
        declare(p, block, reader);
    }
    verify(p, block, reader);
    if (declared && !before) {
        declare(p, block, reader);
    }
    block->readers |= bit(reader);
}

void program_move_to(program *p, program_block *block, int stream)
{
    program_order(p, block->home, stream);
    block->home = stream;
    block->readers &= ~bit(stream);
}

void program_move(program *p)
{
    program_block *block = draw_block(p);
    int stream = program_draw_stream(p);
    if (block == NULL || program_is_captured(p, block) || p->streams[stream].captured) {
        return;
    }
    program_move_to(p, block, stream);
    verify(p, block, stream);
}

/* Waits on the host for all that was queued; the block may then be freed on any stream. */
static mend_stream free_after_wait(program *p, program_block *block)
{
    program_call call = {.kind = CALL_SYNCHRONIZE};
    program_drive(p, 0, &call);
    block->readers = 0;
    block->home = program_draw_stream(p);
    return program_handle(p, block->home);
}

/* A pool that counts on knowing all streams hears of those that used the block. */
static void tell_all(program *p, program_block *block)
{
    for (int i = 0; p->config->knows_all_streams && i < p->stream_count; i++) {
        if (i == block->home || (block->readers & bit(i)) != 0) {
            declare(p, block, i);
        }
    }
}

/* A last look at the block, which runs late, and the stream on which it is freed. */
static mend_stream last_use(program *p, program_block *block)
{
    if (program_is_captured(p, block)) {
        /* Nothing new is queued, and no stream waits for another. */
        bool all_declared = (block->readers & ~block->declared) == 0;
        if (!all_declared) {
            tell_all(p, block);
        }
        return all_declared ? program_handle(p, block->home) : MEND_NO_STREAM;
    }
    if (!block->used && block->range == NO_RANGE && !program_one_in(p, 4)) {
        block->home = program_draw_stream(p); /* there is no use to come after */
        return program_handle(p, block->home);
    }
    verify(p, block, block->home);
    if (!program_is_capturing(p) && program_one_in(p, 48)) {
        return free_after_wait(p, block);
    }
    if (program_one_in(p, 16)) {
        tell_all(p, block);
        return MEND_NO_STREAM;
    }
    int elsewhere = program_draw_stream(p);
    if (program_one_in(p, 3) && !p->streams[elsewhere].captured) {
        program_move_to(p, block, elsewhere);
    }
    program_join_readers(p, block, program_one_in(p, 4));
    return program_handle(p, block->home);
}

/* The graph goes on writing the memory, which stays its group's: after all the block's uses. */
static void keep_from_graph(program *p, const program_block *block)
{
    if (block->graph == NO_GRAPH || block->graph == p->taken || !block->used) {
        return;
    }
    program_graph_follows(p, block->graph, block->home);
    for (int i = 0; i < p->stream_count; i++) {
        if ((block->readers & bit(i)) != 0) {
            program_graph_follows(p, block->graph, i);
        }
    }
}

void program_free(program *p, int at)
{
    program_block block = p->blocks[at];
    program_call call = {.kind = CALL_FREE, .pointer = pointer_of(&block)};
    call.stream = last_use(p, &block);
    keep_from_graph(p, &block);
    int thread = call.stream == MEND_NO_STREAM ? 0 : program_thread_of(p, block.home);
    if (block.range != NO_RANGE) {
        call.kind = CALL_DECOMMIT;
        program_name_page(p, &block, &call);
    }
    program_must(p, thread, &call);
    p->blocks[at] = p->blocks[--p->block_count];
    if (block.range != NO_RANGE) {
        program_must(p, thread, &call); /* once more changes nothing */
        return;
    }
    if (program_try(p, thread, &call) == MEND_ERROR_DRIVER && call.faulty) {
        program_try(p, thread, &call); /* the driver did not tell of the stream */
    }
    program_claim(p, call.result == MEND_ERROR_DOUBLE_FREE || call.faulty, "a second free: %s",
                  mend_result_name(call.result));
}

void program_free_any(program *p)
{
    program_block *block = draw_block(p);
    bool is_held = block != NULL && block->range != NO_RANGE && program_is_captured(p, block);
    if (block != NULL && !is_held && program_graph_lets_free(p, block)) {
        program_free(p, (int)(block - p->blocks));
    }
}

void program_look(program *p)
{
    const program_block *block = draw_block(p);
    if (block == NULL) {
        return;
    }
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    const void *inside = (const char *)pointer_of(block) + program_below(p, block->size_bytes);
    mend_result result = mend_get_block_info(p->world.pool, inside, &info);
    program_claim(p,
                  result == MEND_OK && info.base == pointer_of(block) &&
                      info.requested_bytes == block->requested_bytes &&
                      info.usable_bytes == block->size_bytes &&
                      info.stream == block->allocated_on && info.pool == p->world.pool,
                  "the pool describes a block otherwise than it was asked for: %s",
                  mend_result_name(result));
}
