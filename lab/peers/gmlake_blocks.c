#include "lab/peers/gmlake_blocks.h"

#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"

bool gmlake_array_reserve(gmlake_array *array)
{
    if (array->count < array->capacity) {
        return true;
    }
    size_t capacity = array->capacity == 0 ? 4 : 2 * array->capacity;
    void **items = realloc(array->items, capacity * sizeof(void *));
    if (items == NULL) {
        return false;
    }
    array->items = items;
    array->capacity = capacity;
    return true;
}

void gmlake_array_append(gmlake_array *array, void *item)
{
    array->items[array->count++] = item;
}

static size_t array_find(const gmlake_array *array, const void *item)
{
    size_t at = 0;
    while (array->items[at] != item) {
        at++;
    }
    return at;
}

mend_result gmlake_fail(mend_status status, const char *call)
{
    if (status == MEND_DRIVER_OUT_OF_MEMORY) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    return mend_fail_driver(MEND_ERROR_DRIVER, call, status, mend_status_name(status),
                            "the model of GMLake cannot go on");
}

/* ---- order ----------------------------------------------------------------------------------- */

static gmlake_primitive *primitive_of(const mend_tree_node *node)
{
    return node == NULL ? NULL : MEND_CONTAINER_OF(node, gmlake_primitive, in_free);
}

static gmlake_stitched *stitched_of(const mend_tree_node *node)
{
    return node == NULL ? NULL : MEND_CONTAINER_OF(node, gmlake_stitched, in_idle);
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int order_primitives(const mend_tree_node *a, const mend_tree_node *b)
{
    const gmlake_primitive *left = primitive_of(a);
    const gmlake_primitive *right = primitive_of(b);
    int order = compare((uintptr_t)left->stream, (uintptr_t)right->stream);
    order = order != 0 ? order : compare(left->pages, right->pages);
    return order != 0 ? order : compare(left->address, right->address);
}

static int order_stitched(const mend_tree_node *a, const mend_tree_node *b)
{
    const gmlake_stitched *left = stitched_of(a);
    const gmlake_stitched *right = stitched_of(b);
    int order = compare((uintptr_t)left->stream, (uintptr_t)right->stream);
    order = order != 0 ? order : compare(left->pages, right->pages);
    return order != 0 ? order : compare(left->address, right->address);
}

void gmlake_init_trees(gmlake *model)
{
    mend_tree_init(&model->free_primitives, order_primitives);
    mend_tree_init(&model->idle_stitched, order_stitched);
}

gmlake_primitive *gmlake_best_primitive(const gmlake *model, mend_stream stream, uint64_t pages)
{
    gmlake_primitive key = {.stream = stream, .pages = pages};
    gmlake_primitive *best =
        primitive_of(mend_tree_at_or_after(&model->free_primitives, &key.in_free));
    return best != NULL && best->stream == stream ? best : NULL;
}

gmlake_primitive *gmlake_largest_primitive(const gmlake *model, mend_stream stream)
{
    gmlake_primitive key = {.stream = stream, .pages = UINT64_MAX};
    gmlake_primitive *largest =
        primitive_of(mend_tree_at_or_before(&model->free_primitives, &key.in_free));
    return largest != NULL && largest->stream == stream ? largest : NULL;
}

gmlake_primitive *gmlake_smaller_primitive(const gmlake_primitive *primitive)
{
    gmlake_primitive *smaller = primitive_of(mend_tree_previous(&primitive->in_free));
    return smaller != NULL && smaller->stream == primitive->stream ? smaller : NULL;
}

gmlake_stitched *gmlake_best_stitched(const gmlake *model, mend_stream stream, uint64_t pages)
{
    gmlake_stitched key = {.stream = stream, .pages = pages};
    gmlake_stitched *best = stitched_of(mend_tree_at_or_after(&model->idle_stitched, &key.in_idle));
    return best != NULL && best->stream == stream ? best : NULL;
}

void gmlake_set_in_use(gmlake *model, gmlake_primitive *primitive, bool in_use)
{
    if (in_use) {
        mend_tree_remove(&model->free_primitives, &primitive->in_free);
        primitive->segment->used_pages += primitive->pages;
    } else {
        mend_tree_insert(&model->free_primitives, &primitive->in_free);
        primitive->segment->used_pages -= primitive->pages;
    }
    for (size_t i = 0; i < primitive->users.count; i++) {
        gmlake_stitched *user = primitive->users.items[i];
        if (in_use && user->busy_parts++ == 0) {
            mend_tree_remove(&model->idle_stitched, &user->in_idle);
        } else if (!in_use && --user->busy_parts == 0) {
            mend_tree_insert(&model->idle_stitched, &user->in_idle);
        }
    }
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Maps one page and gives access to it. On failure it is not mapped. */
static mend_status show_page(const gmlake *model, uint64_t address, mend_chunk_handle handle)
{
    const mend_driver *driver = model->config.driver;
    mend_status status = driver->map(driver, address, GMLAKE_PAGE_BYTES, 0, handle);
    if (status == MEND_DRIVER_OK) {
        status = driver->set_access(driver, address, GMLAKE_PAGE_BYTES, &model->config.device, 1,
                                    MEND_ACCESS_READ_WRITE);
        if (status != MEND_DRIVER_OK) {
            driver->unmap(driver, address, GMLAKE_PAGE_BYTES);
        }
    }
    return status;
}

/* Unmaps the first pages of a range and frees its addresses. */
static mend_status hide_pages(const gmlake *model, uint64_t address, uint64_t shown, uint64_t pages)
{
    const mend_driver *driver = model->config.driver;
    mend_status status = MEND_DRIVER_OK;
    for (uint64_t i = 0; i < shown; i++) {
        mend_status unmapped =
            driver->unmap(driver, address + i * GMLAKE_PAGE_BYTES, GMLAKE_PAGE_BYTES);
        status = status == MEND_DRIVER_OK ? unmapped : status;
    }
    mend_status freed = driver->address_free(driver, address, pages * GMLAKE_PAGE_BYTES);
    return status == MEND_DRIVER_OK ? freed : status;
}

/* Creates and maps the pages of a segment; on failure nothing stays. */
static mend_result fill_segment(gmlake *model, gmlake_segment *segment)
{
    const mend_driver *driver = model->config.driver;
    mend_chunk_properties properties = {.device = model->config.device};
    uint64_t created = 0;
    uint64_t shown = 0;
    mend_status status = MEND_DRIVER_OK;
    while (created < segment->pages && status == MEND_DRIVER_OK) {
        status = driver->create(driver, GMLAKE_PAGE_BYTES, &properties, &segment->handles[created]);
        created += status == MEND_DRIVER_OK;
    }
    if (status == MEND_DRIVER_OK) {
        status =
            driver->reserve(driver, segment->pages * GMLAKE_PAGE_BYTES, 0, 0, &segment->address);
    }
    while (status == MEND_DRIVER_OK && shown < segment->pages) {
        status =
            show_page(model, segment->address + shown * GMLAKE_PAGE_BYTES, segment->handles[shown]);
        shown += status == MEND_DRIVER_OK;
    }
    if (status == MEND_DRIVER_OK) {
        return MEND_OK;
    }
    if (segment->address != 0) {
        hide_pages(model, segment->address, shown, segment->pages);
    }
    for (uint64_t i = 0; i < created; i++) {
        driver->release(driver, segment->handles[i]);
    }
    return gmlake_fail(status, "cuMemCreate");
}

mend_result gmlake_add_segment(gmlake *model, mend_stream stream, uint64_t pages,
                               gmlake_primitive **primitive)
{
    uint64_t bytes = pages * GMLAKE_PAGE_BYTES;
    uint64_t limit_bytes = model->config.limit_bytes;
    if (limit_bytes != 0 && model->usage.reserved_bytes + bytes > limit_bytes) {
        return MEND_ERROR_OUT_OF_MEMORY;
    }
    gmlake_segment *segment = calloc(1, sizeof(gmlake_segment) + pages * sizeof(mend_chunk_handle));
    gmlake_primitive *made = calloc(1, sizeof(gmlake_primitive));
    if (segment == NULL || made == NULL || !gmlake_array_reserve(&model->primitives)) {
        free(segment);
        free(made);
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    segment->pages = pages;
    mend_result result = fill_segment(model, segment);
    if (result != MEND_OK) {
        free(segment);
        free(made);
        return result;
    }
    mend_list_append(&model->segments, &segment->in_segments);
    model->page_bytes += bytes;
    made->address = segment->address;
    made->pages = pages;
    made->handles = segment->handles;
    made->segment = segment;
    made->stream = stream;
    gmlake_array_append(&model->primitives, made);
    mend_tree_insert(&model->free_primitives, &made->in_free);
    *primitive = made;
    return MEND_OK;
}

/* ---- cutting and stitching ------------------------------------------------------------------- */

mend_result gmlake_cut(gmlake *model, gmlake_primitive *primitive, uint64_t pages)
{
    gmlake_primitive *rest = calloc(1, sizeof(gmlake_primitive));
    bool has_room = rest != NULL && gmlake_array_reserve(&model->primitives);
    for (size_t i = 0; i < primitive->users.count && has_room; i++) {
        gmlake_stitched *user = primitive->users.items[i];
        has_room = gmlake_array_reserve(&user->parts) && gmlake_array_reserve(&rest->users);
        if (has_room) {
            gmlake_array_append(&rest->users, user);
        }
    }
    if (!has_room) {
        if (rest != NULL) {
            free(rest->users.items);
        }
        free(rest);
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (size_t i = 0; i < primitive->users.count; i++) {
        gmlake_stitched *user = primitive->users.items[i];
        gmlake_array_append(&user->parts, rest);
    }
    mend_tree_remove(&model->free_primitives, &primitive->in_free);
    rest->address = primitive->address + pages * GMLAKE_PAGE_BYTES;
    rest->pages = primitive->pages - pages;
    rest->handles = primitive->handles + pages;
    rest->segment = primitive->segment;
    rest->stream = primitive->stream;
    primitive->pages = pages;
    gmlake_array_append(&model->primitives, rest);
    mend_tree_insert(&model->free_primitives, &primitive->in_free);
    mend_tree_insert(&model->free_primitives, &rest->in_free);
    return MEND_OK;
}

/* Maps all pages of the parts, one after the other; on failure none. */
static mend_status show_parts(const gmlake *model, const gmlake_stitched *stitched)
{
    mend_status status = MEND_DRIVER_OK;
    uint64_t shown = 0;
    for (size_t i = 0; i < stitched->parts.count; i++) {
        const gmlake_primitive *part = stitched->parts.items[i];
        for (uint64_t page = 0; page < part->pages && status == MEND_DRIVER_OK; page++) {
            status = show_page(model, stitched->address + shown * GMLAKE_PAGE_BYTES,
                               part->handles[page]);
            shown += status == MEND_DRIVER_OK;
        }
    }
    if (status != MEND_DRIVER_OK) {
        hide_pages(model, stitched->address, shown, stitched->pages);
    }
    return status;
}

static void free_stitched(gmlake_stitched *stitched)
{
    if (stitched != NULL) {
        free(stitched->parts.items);
    }
    free(stitched);
}

/* Makes a stitched block with its parts, and room in the parts to refer to it. Nothing refers to it
 * yet. */
static gmlake_stitched *make_stitched(const gmlake_array *parts)
{
    gmlake_stitched *made = calloc(1, sizeof(gmlake_stitched));
    bool has_room = made != NULL;
    for (size_t i = 0; i < parts->count && has_room; i++) {
        gmlake_primitive *part = parts->items[i];
        has_room = gmlake_array_reserve(&part->users) && gmlake_array_reserve(&made->parts);
        if (has_room) {
            gmlake_array_append(&made->parts, part);
        }
    }
    if (!has_room) {
        free_stitched(made);
        return NULL;
    }
    return made;
}

mend_result gmlake_stitch(gmlake *model, mend_stream stream, const gmlake_array *parts,
                          uint64_t pages, gmlake_stitched **stitched)
{
    const mend_driver *driver = model->config.driver;
    gmlake_stitched *made = make_stitched(parts);
    if (made == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    made->pages = pages;
    made->stream = stream;
    mend_status status = driver->event_create(driver, &made->event);
    if (status == MEND_DRIVER_OK) {
        status = driver->reserve(driver, pages * GMLAKE_PAGE_BYTES, 0, 0, &made->address);
        if (status == MEND_DRIVER_OK) {
            status = show_parts(model, made);
        }
        if (status != MEND_DRIVER_OK) {
            driver->event_destroy(driver, made->event);
        }
    }
    if (status != MEND_DRIVER_OK) {
        free_stitched(made);
        return gmlake_fail(status, "cuMemMap");
    }
    for (size_t i = 0; i < made->parts.count; i++) {
        gmlake_primitive *part = made->parts.items[i];
        gmlake_array_append(&part->users, made);
    }
    mend_tree_insert(&model->idle_stitched, &made->in_idle);
    mend_list_append(&model->stitched_order, &made->in_order);
    model->stitched_pages += pages;
    *stitched = made;
    return MEND_OK;
}

mend_result gmlake_unstitch(gmlake *model, gmlake_stitched *stitched)
{
    const mend_driver *driver = model->config.driver;
    for (size_t i = 0; i < stitched->parts.count; i++) {
        gmlake_primitive *part = stitched->parts.items[i];
        size_t at = array_find(&part->users, stitched);
        part->users.items[at] = part->users.items[--part->users.count];
    }
    if (stitched->busy_parts == 0) {
        mend_tree_remove(&model->idle_stitched, &stitched->in_idle);
    }
    mend_list_remove(&stitched->in_order);
    model->stitched_pages -= stitched->pages;
    mend_status status = hide_pages(model, stitched->address, stitched->pages, stitched->pages);
    driver->event_destroy(driver, stitched->event);
    free_stitched(stitched);
    return status == MEND_DRIVER_OK ? MEND_OK : gmlake_fail(status, "cuMemUnmap");
}

/* ---- giving back ----------------------------------------------------------------------------- */

static void free_primitive(gmlake_primitive *primitive)
{
    free(primitive->users.items);
    free(primitive);
}

/* Releases the pages of a segment, whatever uses them. */
static mend_status drop_segment(gmlake *model, gmlake_segment *segment)
{
    const mend_driver *driver = model->config.driver;
    mend_status status = hide_pages(model, segment->address, segment->pages, segment->pages);
    for (uint64_t i = 0; i < segment->pages; i++) {
        driver->release(driver, segment->handles[i]);
    }
    model->page_bytes -= segment->pages * GMLAKE_PAGE_BYTES;
    mend_list_remove(&segment->in_segments);
    free(segment);
    return status;
}

static mend_result unstitch_all_but_live(gmlake *model)
{
    mend_list *next;
    for (mend_list *at = model->stitched_order.next; at != &model->stitched_order; at = next) {
        next = at->next;
        gmlake_stitched *stitched = MEND_CONTAINER_OF(at, gmlake_stitched, in_order);
        if (mend_pointer_map_find(&model->live_stitched, stitched->address) == NULL) {
            mend_result result = gmlake_unstitch(model, stitched);
            if (result != MEND_OK) {
                return result;
            }
        }
    }
    return MEND_OK;
}

static void forget_free_primitives(gmlake *model)
{
    gmlake_array *all = &model->primitives;
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        gmlake_primitive *primitive = all->items[i];
        if (primitive->segment->used_pages > 0) {
            all->items[kept++] = primitive;
        } else {
            mend_tree_remove(&model->free_primitives, &primitive->in_free);
            free_primitive(primitive);
        }
    }
    all->count = kept;
}

mend_result gmlake_release_free(gmlake *model)
{
    const mend_driver *driver = model->config.driver;
    mend_status status = driver->context_synchronize(driver);
    if (status != MEND_DRIVER_OK) {
        return gmlake_fail(status, "cuCtxSynchronize");
    }
    mend_result result = unstitch_all_but_live(model);
    if (result != MEND_OK) {
        return result;
    }
    forget_free_primitives(model);
    mend_list *next;
    for (mend_list *at = model->segments.next; at != &model->segments; at = next) {
        next = at->next;
        gmlake_segment *segment = MEND_CONTAINER_OF(at, gmlake_segment, in_segments);
        if (segment->used_pages == 0) {
            mend_status dropped = drop_segment(model, segment);
            status = status == MEND_DRIVER_OK ? dropped : status;
        }
    }
    return status == MEND_DRIVER_OK ? MEND_OK : gmlake_fail(status, "cuMemUnmap");
}

mend_result gmlake_drop_segments(gmlake *model)
{
    mend_status status = MEND_DRIVER_OK;
    for (size_t i = 0; i < model->primitives.count; i++) {
        free_primitive(model->primitives.items[i]);
    }
    free(model->primitives.items);
    while (!mend_list_is_empty(&model->segments)) {
        mend_status dropped = drop_segment(
            model, MEND_CONTAINER_OF(model->segments.next, gmlake_segment, in_segments));
        status = status == MEND_DRIVER_OK ? dropped : status;
    }
    return status == MEND_DRIVER_OK ? MEND_OK : gmlake_fail(status, "cuMemUnmap");
}
