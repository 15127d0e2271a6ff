/*
 * A model of GMLake: memory above 1 MiB has pages of 2 MiB. If no free block of the stream is large
 * enough, several are mapped a second time at new, contiguous addresses (stitched); the stitched
 * block stays for later requests of that size. As in GMLake, requests up to 1 MiB go to PyTorch's
 * caching allocator. GMLake's program stitches only above 512 MiB by default; the model stitches
 * any size, as the paper does.
 */
#include "lab/peers/gmlake_blocks.h"

#include <stdlib.h>

#include "base/align.h"
#include "lab/peers/models.h"

enum { REUSE_LIMIT = 10 }; /* a stitched block serves requests down to a tenth of its size */

#define SMALL_REQUEST_BYTES MEND_MIB
#define MOST_STITCHED_PAGES (1000 * MEND_GIB / GMLAKE_PAGE_BYTES)

static gmlake *self_of(mend_peer *peer)
{
    return MEND_CONTAINER_OF(peer, gmlake, peer);
}

static void count_usage(gmlake *model)
{
    mend_peer_usage small;
    model->small->operations->get_usage(model->small, &small);
    mend_peer_usage *usage = &model->usage;
    usage->reserved_bytes = small.reserved_bytes + model->page_bytes;
    usage->peak_reserved_bytes = mend_max_u64(usage->peak_reserved_bytes, usage->reserved_bytes);
}

/* ---- stitched blocks ------------------------------------------------------------------------- */

/* Unmaps the oldest stitched blocks whose last use has ended, until few enough addresses are
 * mapped. */
static mend_result collect_garbage(gmlake *model)
{
    const mend_driver *driver = model->config.driver;
    mend_list *next;
    for (mend_list *at = model->stitched_order.next;
         at != &model->stitched_order && model->stitched_pages > MOST_STITCHED_PAGES; at = next) {
        next = at->next;
        gmlake_stitched *oldest = MEND_CONTAINER_OF(at, gmlake_stitched, in_order);
        if (mend_pointer_map_find(&model->live_stitched, oldest->address) != NULL) {
            continue;
        }
        if (driver->event_query(driver, oldest->event) != MEND_DRIVER_OK) {
            break;
        }
        mend_result result = gmlake_unstitch(model, oldest);
        if (result != MEND_OK) {
            return result;
        }
    }
    return MEND_OK;
}

/* Free primitive blocks of a stream, the largest first, with exactly this many pages together;
 * creates what is missing. */
static mend_result gather(gmlake *model, mend_stream stream, uint64_t pages, gmlake_array *parts)
{
    uint64_t found = 0;
    gmlake_primitive *part = gmlake_largest_primitive(model, stream);
    gmlake_primitive *last = NULL;
    for (; part != NULL && found < pages; part = gmlake_smaller_primitive(part)) {
        if (!gmlake_array_reserve(parts)) {
            return MEND_ERROR_OUT_OF_HOST_MEMORY;
        }
        gmlake_array_append(parts, part);
        found += part->pages;
        last = part;
    }
    if (found > pages) {
        return gmlake_cut(model, last, last->pages - (found - pages));
    }
    if (found == pages) {
        return MEND_OK;
    }
    if (!gmlake_array_reserve(parts)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    mend_result result = gmlake_add_segment(model, stream, pages - found, &part);
    if (result == MEND_OK) {
        gmlake_array_append(parts, part);
    }
    return result;
}

static void use_primitive(gmlake *model, gmlake_primitive *primitive, uint64_t *address)
{
    gmlake_set_in_use(model, primitive, true);
    mend_pointer_map_insert(&model->live_primitives, primitive->address, primitive);
    *address = primitive->address;
}

static void use_stitched(gmlake *model, gmlake_stitched *stitched, uint64_t *address)
{
    for (size_t i = 0; i < stitched->parts.count; i++) {
        gmlake_set_in_use(model, stitched->parts.items[i], true);
    }
    mend_pointer_map_insert(&model->live_stitched, stitched->address, stitched);
    *address = stitched->address;
}

/* Stitches several blocks; returns a single new one as it is. */
static mend_result try_join(gmlake *model, mend_stream stream, uint64_t pages, uint64_t *address)
{
    gmlake_array parts = {0};
    mend_result result = gather(model, stream, pages, &parts);
    if (result == MEND_OK && parts.count == 1) {
        use_primitive(model, parts.items[0], address);
    } else if (result == MEND_OK) {
        gmlake_stitched *stitched = NULL;
        result = gmlake_stitch(model, stream, &parts, pages, &stitched);
        if (result == MEND_OK) {
            use_stitched(model, stitched, address);
        }
    }
    free(parts.items);
    return result;
}

static mend_result join_blocks(gmlake *model, mend_stream stream, uint64_t pages, uint64_t *address)
{
    mend_result result = try_join(model, stream, pages, address);
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        result = gmlake_release_free(model);
        count_usage(model);
        result = result == MEND_OK ? try_join(model, stream, pages, address) : result;
    }
    return result == MEND_OK ? collect_garbage(model) : result;
}

/* ---- allocate and free ----------------------------------------------------------------------- */

static mend_result alloc_large(gmlake *model, uint64_t size_bytes, mend_stream stream,
                               uint64_t *address)
{
    uint64_t pages = mend_align_up(size_bytes, GMLAKE_PAGE_BYTES) / GMLAKE_PAGE_BYTES;
    if (!mend_pointer_map_reserve(&model->live_primitives) ||
        !mend_pointer_map_reserve(&model->live_stitched)) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    gmlake_primitive *primitive = gmlake_best_primitive(model, stream, pages);
    gmlake_stitched *stitched = gmlake_best_stitched(model, stream, pages);
    bool is_exact = primitive != NULL && primitive->pages == pages;
    if (stitched != NULL && !is_exact &&
        (stitched->pages == pages ||
         (primitive == NULL && stitched->pages <= REUSE_LIMIT * pages))) {
        use_stitched(model, stitched, address);
        return MEND_OK;
    }
    if (primitive == NULL) {
        return join_blocks(model, stream, pages, address);
    }
    mend_result result = is_exact ? MEND_OK : gmlake_cut(model, primitive, pages);
    if (result == MEND_OK) {
        use_primitive(model, primitive, address);
    }
    return result;
}

static mend_result gmlake_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                                uint64_t *address)
{
    gmlake *model = self_of(peer);
    mend_mutex_lock(&model->mutex);
    mend_result result =
        size_bytes <= SMALL_REQUEST_BYTES
            ? model->small->operations->alloc(model->small, size_bytes, stream, address)
            : alloc_large(model, size_bytes, stream, address);
    count_usage(model);
    mend_mutex_unlock(&model->mutex);
    return result;
}

/* The block's own stream waits for the one that used it last. */
static mend_result order_after(const gmlake *model, mend_stream own, mend_stream user)
{
    const mend_driver *driver = model->config.driver;
    if (own == user) {
        return MEND_OK;
    }
    mend_event event;
    mend_status status = driver->event_create(driver, &event);
    if (status == MEND_DRIVER_OK) {
        status = driver->event_record(driver, event, user);
        if (status == MEND_DRIVER_OK) {
            status = driver->stream_wait(driver, own, event);
        }
        driver->event_destroy(driver, event);
    }
    return status == MEND_DRIVER_OK ? MEND_OK : gmlake_fail(status, "cuStreamWaitEvent");
}

static mend_result free_stitched(gmlake *model, gmlake_stitched *stitched, mend_stream stream)
{
    const mend_driver *driver = model->config.driver;
    mend_result result = order_after(model, stitched->stream, stream);
    for (size_t i = 0; i < stitched->parts.count; i++) {
        gmlake_set_in_use(model, stitched->parts.items[i], false);
    }
    mend_list_remove(&stitched->in_order);
    mend_list_append(&model->stitched_order, &stitched->in_order);
    mend_status status = driver->event_record(driver, stitched->event, stitched->stream);
    if (result == MEND_OK && status != MEND_DRIVER_OK) {
        result = gmlake_fail(status, "cuEventRecord");
    }
    return result;
}

static mend_result free_locked(gmlake *model, uint64_t address, mend_stream stream)
{
    gmlake_primitive *primitive = mend_pointer_map_remove(&model->live_primitives, address);
    if (primitive != NULL) {
        mend_result result = order_after(model, primitive->stream, stream);
        gmlake_set_in_use(model, primitive, false);
        return result;
    }
    gmlake_stitched *stitched = mend_pointer_map_remove(&model->live_stitched, address);
    if (stitched != NULL) {
        return free_stitched(model, stitched, stream);
    }
    return model->small->operations->free(model->small, address, stream);
}

static mend_result gmlake_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    gmlake *model = self_of(peer);
    mend_mutex_lock(&model->mutex);
    mend_result result = free_locked(model, address, stream);
    count_usage(model);
    mend_mutex_unlock(&model->mutex);
    return result;
}

static void gmlake_get_usage(mend_peer *peer, mend_peer_usage *usage)
{
    gmlake *model = self_of(peer);
    mend_mutex_lock(&model->mutex);
    *usage = model->usage;
    mend_mutex_unlock(&model->mutex);
}

static mend_result gmlake_destroy(mend_peer *peer)
{
    gmlake *model = self_of(peer);
    mend_result result = MEND_OK;
    while (!mend_list_is_empty(&model->stitched_order)) {
        mend_result gone = gmlake_unstitch(
            model, MEND_CONTAINER_OF(model->stitched_order.next, gmlake_stitched, in_order));
        result = result == MEND_OK ? gone : result;
    }
    mend_result dropped = gmlake_drop_segments(model);
    result = result == MEND_OK ? dropped : result;
    dropped = model->small->operations->destroy(model->small);
    result = result == MEND_OK ? dropped : result;
    mend_pointer_map_clear(&model->live_primitives);
    mend_pointer_map_clear(&model->live_stitched);
    mend_mutex_destroy(&model->mutex);
    free(model);
    return result;
}

static const mend_peer_operations gmlake_operations = {gmlake_alloc, gmlake_free, gmlake_get_usage,
                                                       gmlake_destroy};

mend_result mend_peer_create_gmlake(const mend_peer_config *config, mend_peer **peer)
{
    gmlake *model = calloc(1, sizeof(gmlake));
    if (model == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    mend_result result = mend_peer_create_caching(config, &model->small);
    if (result != MEND_OK) {
        free(model);
        return result;
    }
    model->peer.operations = &gmlake_operations;
    model->config = *config;
    mend_mutex_init(&model->mutex, MEND_RANK_GROW); /* its rank comes before that of the small
                                                     * allocator's mutex */
    gmlake_init_trees(model);
    mend_list_init(&model->segments);
    mend_list_init(&model->stitched_order);
    mend_pointer_map_init(&model->live_primitives);
    mend_pointer_map_init(&model->live_stitched);
    *peer = &model->peer;
    return MEND_OK;
}
