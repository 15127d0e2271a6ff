#include "heap/plan.h"

#include "heap/swap.h"

/* How many runs are tried as a base before a fresh place is taken. */
enum { BASE_TRIES = 16 };

/* A chunk of the large zone is a power of two near 1/256 of the limit, up to this. */
#define LARGEST_CHUNK_BYTES (128 * MEND_MIB)
enum { CHUNKS_OF_LIMIT = 256 };

/* The same for the small zone. */
#define SMALL_CHUNK_BYTES (8 * MEND_MIB)

/* Room is ample while so much of the limit is not reserved; then chunks shrink to this part of it.
 */
enum { AMPLE_ROOM_PERCENT = 60, TIGHT_CHUNKS_OF_LIMIT = 512 };

uint64_t mend_plan_usual_chunk(const mend_heap *heap, int zone)
{
    uint64_t page = heap->device.granularity_bytes;
    uint64_t part = mend_power_of_two_floor(heap->config.limit_bytes / CHUNKS_OF_LIMIT + 1);
    uint64_t bytes = mend_min_u64(part, LARGEST_CHUNK_BYTES);
    if (zone == MEND_ZONE_SMALL) {
        uint64_t wanted = heap->config.small_chunk_bytes;
        bytes = wanted != 0 ? wanted : mend_min_u64(bytes, SMALL_CHUNK_BYTES);
    } else if (heap->config.chunk_bytes != 0) {
        bytes = heap->config.chunk_bytes;
    }
    return mend_align_up(bytes, page);
}

static bool chunk_is_ready(mend_heap *heap, const mend_chunk *chunk, const mend_request *request)
{
    if (chunk->address == 0 || !mend_streams_are_several(&heap->streams)) {
        return true; /* chunks mapped nowhere are idle */
    }
    mend_run *run = mend_layout_run_at(&heap->zones[chunk->zone], chunk->address);
    return mend_layout_is_ready(heap, run, chunk->address, chunk->size_bytes, request->stream,
                                request->behind_wait);
}

/* Not chosen by this plan, and not a part of its base (which is marked as chosen). */
static bool can_pick(mend_heap *heap, const mend_chunk *chunk, const mend_request *request)
{
    return chunk->picked != heap->plan_number && chunk_is_ready(heap, chunk, request);
}

typedef struct pick_list {
    mend_plan *plan;
    mend_chunk **tail;
} pick_list;

static void pick(mend_heap *heap, pick_list *list, mend_chunk *chunk)
{
    chunk->picked = heap->plan_number;
    chunk->next_picked = NULL;
    *list->tail = chunk;
    list->tail = &chunk->next_picked;
    list->plan->picked_count++;
    list->plan->picked_bytes += chunk->size_bytes;
}

/* Chooses chunks for `need_bytes`: the largest not above the need first, oldest first among equals,
 * then the smallest that covers the rest. Returns what is still missing. */
static uint64_t pick_chunks(mend_heap *heap, const mend_request *request, mend_plan *plan,
                            uint64_t need_bytes)
{
    pick_list list = {plan, &plan->picked};
    mend_chunk *largest = mend_chunk_whole_at_most(&heap->chunks, need_bytes, UINT64_MAX);
    while (need_bytes > 0 && largest != NULL) {
        uint64_t size_bytes = largest->size_bytes;
        if (size_bytes > need_bytes) {
            largest = mend_chunk_whole_at_most(&heap->chunks, need_bytes, UINT64_MAX);
            continue;
        }
        mend_chunk *at = mend_chunk_whole_at_least(&heap->chunks, size_bytes, 0);
        for (; at != NULL && at->size_bytes == size_bytes && size_bytes <= need_bytes;
             at = mend_chunk_whole_next(at)) {
            if (can_pick(heap, at, request)) {
                pick(heap, &list, at);
                need_bytes -= size_bytes;
            }
        }
        largest = mend_chunk_whole_at_most(&heap->chunks, size_bytes - 1, UINT64_MAX);
    }
    if (need_bytes == 0) {
        return 0;
    }
    mend_chunk *cover = mend_chunk_whole_at_least(&heap->chunks, need_bytes, 0);
    while (cover != NULL && !can_pick(heap, cover, request)) {
        cover = mend_chunk_whole_next(cover);
    }
    if (cover == NULL) {
        return need_bytes;
    }
    pick(heap, &list, cover);
    return 0;
}

static uint64_t room_under_limit(const mend_heap *heap)
{
    uint64_t limit = heap->config.limit_bytes - mend_swap_kept_bytes(heap);
    uint64_t reserved = heap->chunks.reserved_bytes;
    return limit > reserved ? limit - reserved : 0;
}

bool mend_plan_room_is_ample(const mend_heap *heap)
{
    return room_under_limit(heap) > heap->config.limit_bytes / 100 * AMPLE_ROOM_PERCENT;
}

/* How chunks are sized for one creation. */
typedef struct creation_sizes {
    uint64_t least_bytes;   /* created in all, where the limit has room */
    uint64_t largest_bytes; /* of one chunk */
    bool lone_tail;         /* the last, partly needed page is a chunk of its own */
} creation_sizes;

/*
 * While memory is ample, whole usual chunks: few calls. Once the limit comes near, exactly what a
 * large request lacks, and its last page apart: the next block then begins in that small chunk, and
 * no block keeps its neighbour's large chunk from being wholly free.
 */
static creation_sizes sizes_of_creation(const mend_heap *heap, const mend_request *request)
{
    uint64_t limit = heap->config.limit_bytes;
    uint64_t page = heap->device.granularity_bytes;
    uint64_t usual = mend_plan_usual_chunk(heap, request->zone);
    creation_sizes sizes = {.least_bytes = usual, .largest_bytes = usual};
    if (request->zone == MEND_ZONE_SMALL || mend_plan_room_is_ample(heap)) {
        return sizes;
    }
    uint64_t part = mend_align_down(limit / TIGHT_CHUNKS_OF_LIMIT, page);
    uint64_t tight = mend_min_u64(mend_max_u64(part, page), usual);
    sizes.least_bytes = request->size_bytes >= tight / 2 ? page : tight;
    sizes.largest_bytes = mend_min_u64(usual, 4 * tight);
    sizes.lone_tail = request->size_bytes >= tight / 4;
    return sizes;
}

/* Decides what to create for the missing bytes; false when the limit has no room for them. */
static bool plan_creation(const mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                          uint64_t missing_bytes, mend_plan *plan)
{
    uint64_t room = room_under_limit(heap);
    uint64_t page = heap->device.granularity_bytes;
    uint64_t exact = mend_align_up(missing_bytes, page);
    if (!rules.may_create || exact > room) {
        return false;
    }
    creation_sizes sizes = sizes_of_creation(heap, request);
    bool rounded_up = !rules.exact && exact < sizes.least_bytes && sizes.least_bytes <= room;
    plan->create_bytes = rounded_up ? sizes.least_bytes : exact;
    plan->create_unit_bytes = sizes.largest_bytes;
    bool has_tail = sizes.lone_tail && !rounded_up && exact > page && missing_bytes % page != 0;
    plan->create_tail_bytes = has_tail ? page : 0;
    return true;
}

/* Chooses chunks and creations for the bytes missing behind a base, or for all. */
static bool fill_plan(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                      uint64_t need_bytes, mend_plan *plan)
{
    uint64_t missing = pick_chunks(heap, request, plan, need_bytes);
    return missing == 0 || plan_creation(heap, request, rules, missing, plan);
}

/* Marks the wholly free chunks inside a run, so that they are not moved out of their own base. */
static void mark_chunks_of(mend_heap *heap, const mend_run *run)
{
    mend_chunk *chunk = mend_chunk_at(&heap->chunks, run->address);
    while (chunk != NULL && chunk->address < mend_run_end(run)) {
        chunk->picked = heap->plan_number;
        chunk = mend_chunk_next(chunk);
    }
}

/* The largest run below the request that is ready and has unmapped addresses enough behind it. */
static mend_run *find_base(mend_heap *heap, const mend_request *request, mend_run *run, int *tries,
                           uint64_t *need_bytes)
{
    const mend_space *space = &heap->zones[request->zone].space;
    for (; run != NULL && *tries > 0; run = mend_layout_growing_smaller(run)) {
        (*tries)--;
        uint64_t start = mend_align_up(run->address, request->alignment_bytes);
        uint64_t end = mend_run_end(run);
        if (start >= end || end - start >= request->size_bytes) {
            continue;
        }
        *need_bytes = request->size_bytes - (end - start);
        if (mend_space_room_at(space, end) >= *need_bytes &&
            mend_layout_is_ready(heap, run, start, end - start, request->stream,
                                 request->behind_wait)) {
            return run;
        }
    }
    return NULL;
}

/* Plans to grow a run; false when memory is missing, or no run has room for the chunks at hand. */
static bool plan_extension(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                           mend_plan *plan)
{
    const mend_zone *zone = &heap->zones[request->zone];
    mend_run *run = mend_layout_growing_below(zone, request->size_bytes);
    int tries = BASE_TRIES;
    uint64_t need_bytes = 0;
    while ((run = find_base(heap, request, run, &tries, &need_bytes)) != NULL) {
        *plan = (mend_plan){.base = run};
        heap->plan_number++;
        mark_chunks_of(heap, run);
        if (!fill_plan(heap, request, rules, need_bytes, plan)) {
            return false; /* a smaller run would need more */
        }
        if (plan->picked_bytes + plan->create_bytes <=
            mend_space_room_at(&zone->space, mend_run_end(run))) {
            return true;
        }
        run = mend_layout_growing_smaller(run);
    }
    return false;
}

bool mend_plan_find(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                    mend_plan *plan)
{
    if (rules.may_extend && plan_extension(heap, request, rules, plan)) {
        return true;
    }
    *plan = (mend_plan){0};
    heap->plan_number++;
    return fill_plan(heap, request, rules, request->size_bytes, plan);
}

bool mend_plan_find_small(mend_heap *heap, const mend_request *request, uint64_t largest_bytes,
                          mend_plan *plan)
{
    *plan = (mend_plan){0};
    heap->plan_number++;
    mend_chunk *chunk = mend_chunk_whole_at_least(&heap->chunks, request->size_bytes, 0);
    while (chunk != NULL && chunk->size_bytes <= largest_bytes) {
        if (can_pick(heap, chunk, request)) {
            pick_list list = {plan, &plan->picked};
            pick(heap, &list, chunk);
            return true;
        }
        chunk = mend_chunk_whole_next(chunk);
    }
    return false;
}

bool mend_plan_create_only(mend_heap *heap, const mend_request *request, mend_plan_rules rules,
                           mend_plan *plan)
{
    *plan = (mend_plan){0};
    return plan_creation(heap, request, rules, request->size_bytes, plan);
}

uint64_t mend_plan_next_chunk(const mend_plan *plan, uint64_t left_bytes)
{
    return left_bytes > plan->create_tail_bytes
               ? mend_min_u64(left_bytes - plan->create_tail_bytes, plan->create_unit_bytes)
               : left_bytes;
}

size_t mend_plan_create_count(const mend_plan *plan)
{
    size_t count = 0;
    for (uint64_t left = plan->create_bytes; left > 0; count++) {
        left -= mend_plan_next_chunk(plan, left);
    }
    return count;
}
