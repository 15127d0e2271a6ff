#include "tests/unit/pool/share_rig.h"

#include <string.h>

#include "tests/support/files.h"

bool share_open(mend_world *w, int shareable, mend_sim_fabric fabric)
{
    return kit_open_set(w, w->sim_config.memory_bytes = 16 * CHUNK, w->sim_config.fabric = fabric,
                        w->placement.chunk_bytes = CHUNK, w->pool_config.shareable = shareable);
}

bool share_rig_open(share_rig *r, bool by_fabric)
{
    *r = (share_rig){.by_fabric = by_fabric, .ticket.by_fabric = by_fabric};
    r->files = mend_test_open_files();
    return share_open(&r->from, by_fabric ? MEND_SHAREABLE_FABRIC : MEND_SHAREABLE_ON,
                      MEND_SIM_FABRIC_WORKS) &&
           share_open(&r->to, !by_fabric, MEND_SIM_FABRIC_WORKS);
}

bool share_rig_fill(share_rig *r)
{
    r->block = kit_alloc(&r->from, 2 * CHUNK + 4096, r->from.streams[0]);
    memset(r->block, 7, 2 * CHUNK);
    r->ticket = share_export(r, r->block);
    return !mend_test_has_failed();
}

void share_rig_close(share_rig *r)
{
    kit_close(&r->to);
    kit_close(&r->from);
    EXPECT_TRUE(mend_test_files_are(r->files));
}

mend_result share_try_export(mend_pool *pool, const void *block, share_ticket *ticket)
{
    return ticket->by_fabric
               ? mend_export(pool, block,
                             KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC),
                             ticket->bytes, sizeof(ticket->bytes), &ticket->size, NULL)
               : share_token(pool, block, &ticket->token, BY_FILE);
}

mend_result share_try_import(mend_pool *pool, const share_ticket *ticket, void **pointer)
{
    return ticket->by_fabric
               ? mend_import(pool, ticket->bytes, ticket->size, pointer, NULL)
               : mend_import(pool, &ticket->token, MEND_EXPORT_TOKEN_BYTES, pointer, NULL);
}

share_ticket share_export(share_rig *r, const void *block)
{
    share_ticket ticket = {.by_fabric = r->by_fabric};
    EXPECT_OK(share_try_export(r->from.pool, block, &ticket));
    return ticket;
}

void *share_import(mend_world *w, const share_ticket *ticket)
{
    void *pointer = NULL;
    EXPECT_OK(share_try_import(w->pool, ticket, &pointer));
    return pointer;
}

void share_close(mend_world *w, void *pointer)
{
    EXPECT_OK(mend_import_close(w->pool, pointer, MEND_NO_STREAM));
}

bool share_are_equal(const share_ticket *a, const share_ticket *b)
{
    return memcmp(&a->token, &b->token, sizeof(a->token)) == 0 && a->size == b->size &&
           memcmp(a->bytes, b->bytes, a->size) == 0;
}

bool share_imports(share_rig *r, mend_result *result)
{
    void *pointer = NULL;
    *result = share_try_import(r->to.pool, &r->ticket, &pointer);
    if (*result != MEND_OK) {
        EXPECT_PTR_EQ(NULL, pointer);
        return false;
    }
    EXPECT_INT_EQ(7, ((unsigned char *)pointer)[2 * CHUNK - 1]);
    *result = mend_import_close(r->to.pool, pointer, r->to.streams[0]);
    return *result == MEND_OK;
}
