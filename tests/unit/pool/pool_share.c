/* mend_export, mend_import, mend_import_close, and the first two by fabric handles. */
#include <string.h>

#include "share/share.h"
#include "tests/support/files.h"
#include "tests/unit/pool/share_rig.h"

enum { SMALL_SHARES = 60 };

/* They lie side by side, without growth space, which no import needs. */
SHARE_TEST(pool_share, imports_take_addresses_by_what_they_map)
{
    void *ours[SMALL_SHARES];
    void *theirs[SMALL_SHARES];
    uint64_t first_bytes = 0;
    for (int i = 0; i < SMALL_SHARES; i++) {
        ours[i] = kit_alloc(from, 4096, from->streams[0]);
        share_ticket t = share_export(r, ours[i]);
        theirs[i] = share_import(to, &t);
        first_bytes = i == 0 ? mend_world_stats(to).address_bytes : first_bytes;
    }
    const mend_stats stats = mend_world_stats(to);
    EXPECT_U64_EQ(SMALL_SHARES, stats.imports);
    EXPECT_TRUE(stats.address_bytes <= first_bytes + 2 * stats.imported_bytes);
    for (int i = 0; i < SMALL_SHARES; i++) {
        share_close(to, theirs[i]);
        kit_free(from, ours[i], from->streams[0]);
    }
    EXPECT_OK(mend_trim(to->pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_STATS(to, address_bytes, 0);
}

SHARE_TEST(pool_share, memory_that_importers_keep_is_told_to_its_exporter)
{
    void *ours = kit_alloc(from, 4 * CHUNK, from->streams[0]);
    share_ticket t = share_export(r, ours);
    void *theirs = share_import(to, &t);
    const uint64_t kept_bytes = mend_world_stats(from).exported_bytes;
    uint64_t released_bytes = 0;
    mend_available room = MEND_AVAILABLE_INIT;
    kit_free(from, ours, from->streams[0]);
    EXPECT_OK(mend_trim(from->pool, 0, MEND_TRIM_WAIT, &released_bytes));
    EXPECT_U64_EQ(0, released_bytes);
    EXPECT_STATS(from, importers_bytes, kept_bytes, reserved_bytes, 0);
    EXPECT_OK(mend_get_available(from->pool, NULL, &room));
    EXPECT_U64_EQ(from->sim_config.memory_bytes - kept_bytes, room.device_free_bytes);
    EXPECT_REFUSAL(OUT_OF_MEMORY, "Importers may hold memory that this pool",
                   mend_alloc(from->pool, from->sim_config.memory_bytes, NULL, &ours));
    EXPECT_STATS(from, importers_bytes, kept_bytes);
    share_close(to, theirs);
    EXPECT_OK(mend_get_available(from->pool, NULL, &room));
    EXPECT_U64_EQ(from->sim_config.memory_bytes, room.device_free_bytes);
    EXPECT_STATS(from, importers_bytes, 0);
}

SHARE_TEST(pool_share, a_block_has_one_token_as_long_as_it_lives)
{
    unsigned char *block = kit_alloc(from, 4096, from->streams[0]);
    unsigned char *beside = kit_alloc(from, 4096, from->streams[0]);
    share_ticket first = share_export(r, block);
    share_ticket other = share_export(r, beside);
    uint64_t calls = mend_sim_call_count(from->sim);
    share_ticket again = share_export(r, block + 1000);
    EXPECT_U64_EQ(calls, mend_sim_call_count(from->sim));
    EXPECT_TRUE(share_are_equal(&first, &again) && !share_are_equal(&first, &other));
    EXPECT_STATS(from, exported_blocks, 2);
    kit_free(from, block, from->streams[0]);
    EXPECT_PTR_EQ(block, kit_alloc(from, 4096, from->streams[0]));
    again = share_export(r, block);
    EXPECT_FALSE(share_are_equal(&first, &again));
}

SHARE_TEST(pool_share, each_import_is_that_of_its_export)
{
    enum { COUNT = 3 };
    void *pointer = NULL;
    unsigned char *ours[COUNT], *theirs[COUNT]; /* the last two in one chunk */
    share_ticket tickets[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ours[i] = kit_alloc(from, i == 0 ? CHUNK : CHUNK / 2, from->streams[0]);
        memset(ours[i], i + 1, CHUNK / 2);
        tickets[i] = share_export(r, ours[i]);
        mend_description head; /* another process has given the same number */
        if (r->by_fabric &&
            mend_description_read(tickets[i].bytes, tickets[i].size, &head) == NULL) {
            head.number = 1 + (uint64_t)i / 2;
            mend_description_write_head(tickets[i].bytes, &head);
        }
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        theirs[i] = share_import(to, &tickets[i]);
        EXPECT_TRUE(theirs[i][0] == i + 1 && theirs[i][CHUNK / 2 - 1] == i + 1);
        EXPECT_ERROR(FOREIGN_POINTER, mend_import_close(to->pool, theirs[i] - 512, NULL));
    }
    EXPECT_STATS(to, imports, COUNT);
    share_close(to, theirs[0]);
    kit_free(from, ours[0], from->streams[0]);
    EXPECT_OK(mend_trim(from->pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_ERROR(EXPORTER_GONE, share_try_import(to->pool, &tickets[0], &pointer));
    share_close(to, theirs[1]);
    share_close(to, theirs[2]);
}

KIT_TEST_IN(pool_share, a_block_of_many_chunks_comes_as_a_whole,
            kit_open_set(w, w->sim_config.memory_bytes = 2 * MEND_SHARE_BATCH * CHUNK,
                         w->placement.chunk_bytes = CHUNK,
                         w->pool_config.shareable = MEND_SHAREABLE_ON))
{
    enum { COUNT = MEND_SHARE_BATCH + 3 };
    mend_export_token token;
    uint64_t size_bytes = 0;
    void *pointer = NULL;
    unsigned char *ours = kit_alloc(w, COUNT * CHUNK, S(0));
    for (int i = 0; i < COUNT; i++) {
        ours[(uint64_t)i * CHUNK] = (unsigned char)(i + 1);
    }
    EXPECT_OK(share_token(w->pool, ours, &token, BY_FILE));
    ASSERT_RESULT(MEND_OK, mend_import(w->pool, &token, sizeof(token), &pointer, &size_bytes));
    EXPECT_U64_EQ(COUNT * CHUNK, size_bytes);
    for (int i = 0; i < COUNT; i++) {
        EXPECT_INT_EQ(i + 1, ((unsigned char *)pointer)[(uint64_t)i * CHUNK]);
    }
    share_close(w, pointer);
}

MEND_TEST(pool_share, an_import_outlives_the_block_and_the_exporter)
{
    for (int by_fabric = 0; by_fabric < 2; by_fabric++) {
        share_rig r;
        void *none = NULL;
        ASSERT_TRUE(share_rig_open(&r, by_fabric) && share_rig_fill(&r));
        unsigned char *theirs = share_import(&r.to, &r.ticket);
        kit_free(&r.from, r.block, r.from.streams[0]);
        EXPECT_OK(mend_trim(r.from.pool, 0, MEND_TRIM_WAIT, NULL));
        EXPECT_STATS(&r.from, reserved_bytes, 0);
        EXPECT_TRUE(mend_world_ledger(&r.from).chunks > 0); /* the importer holds them */
        EXPECT_INT_EQ(7, theirs[2 * CHUNK - 1]);
        EXPECT_OK(mend_pool_destroy(r.from.pool));
        EXPECT_PTR_EQ(theirs, share_import(&r.to, &r.ticket)); /* it is mapped already */
        share_close(&r.to, theirs);
        if (by_fabric) {
            mend_sim_destroy(r.from.sim);
        }
        EXPECT_INT_EQ(7, theirs[0]);
        share_close(&r.to, theirs);
        EXPECT_U64_EQ(0, by_fabric ? 0 : mend_world_ledger(&r.from).chunks);
        EXPECT_REFUSAL(EXPORTER_GONE, by_fabric ? "has ended, or gave it" : "was freed",
                       share_try_import(r.to.pool, &r.ticket, &none));
        EXPECT_PTR_EQ(NULL, none);
        kit_close(&r.to);
        if (!by_fabric) {
            mend_sim_destroy(r.from.sim);
        }
        EXPECT_TRUE(mend_test_files_are(r.files));
    }
}

SHARE_TEST(pool_share, a_capture_forbids_a_close_that_would_need_to_know_its_end)
{
    share_ticket t = share_export(r, kit_alloc(from, CHUNK, from->streams[0]));
    void *theirs = share_import(to, &t);
    kit_begin_capture(to, to->streams[0]);
    EXPECT_ERROR(CAPTURING, mend_import_close(to->pool, theirs, to->streams[0]));
    EXPECT_STATS(to, imports, 1);
    mend_sim_graph_destroy(to->sim, kit_end_capture(to, to->streams[0]));
    EXPECT_OK(mend_import_close(to->pool, theirs, to->streams[0]));
}

SHARE_TEST(pool_share, an_exported_block_is_neither_moved_nor_compacted)
{
    mend_compact_report report = MEND_COMPACT_REPORT_INIT;
    kit_free(from, kit_alloc(from, CHUNK, from->streams[0]), from->streams[0]);
    void *kept = kit_alloc(from, CHUNK / 4, from->streams[0]);
    (void)share_export(r, kept);
    EXPECT_OK(mend_compact(from->pool, NULL, &report));
    EXPECT_U64_EQ(0, report.compactions);
    EXPECT_INVALID(mend_unpin(from->pool, kept, CHUNK / 4));
    EXPECT_OK(mend_pin(from->pool, kept, CHUNK / 4));
    EXPECT_OK(mend_unpin(from->pool, kept, CHUNK / 4));
    EXPECT_TRUE(mend_world_stats(from).pinned_bytes > 0);
    EXPECT_TRUE(mend_world_check(from));
    kit_free(from, kept, from->streams[0]);
    EXPECT_STATS(from, pinned_bytes, 0);
}

SHARED_TEST(pool_share, damaged_tokens_are_refused, false)
{
    const mend_export_token token = r->ticket.token;
    void *pointer = NULL;
    for (size_t i = 0; i < sizeof(token); i++) {
        mend_export_token other = token;
        other.bytes[i] ^= 1;
        EXPECT_INVALID(mend_import(r->to.pool, &other, MEND_EXPORT_TOKEN_BYTES, &pointer, NULL));
    }
    mend_export_token cut = token;
    memset(cut.bytes + 40, 0, sizeof(cut) - 40);
    EXPECT_INVALID(mend_import(r->to.pool, &cut, MEND_EXPORT_TOKEN_BYTES, &pointer, NULL));
    mend_token_content content;
    EXPECT_TRUE(mend_token_read(&token, &content));
    content.number += 1000;
    mend_token_write(&content, &cut);
    EXPECT_ERROR(EXPORTER_GONE,
                 mend_import(r->to.pool, &cut, MEND_EXPORT_TOKEN_BYTES, &pointer, NULL));
    content.name[0] ^= 1;
    mend_token_write(&content, &cut);
    EXPECT_REFUSAL(EXPORTER_GONE, "has ended",
                   mend_import(r->to.pool, &cut, MEND_EXPORT_TOKEN_BYTES, &pointer, NULL));
    EXPECT_PTR_EQ(NULL, pointer);
}

SHARE_TEST(pool_share, misuse_has_its_errors)
{
    mend_export_token token = {{7}};
    void *pointer = NULL;
    uint64_t offset = 77;
    size_t size = 0;
    char *block = kit_alloc(from, 4096, from->streams[0]);
    char *freed = kit_alloc(from, 4096, from->streams[0]);
    kit_free(from, freed, from->streams[0]);
    mend_pool *pool = from->pool;
    EXPECT_ERROR(FOREIGN_POINTER, share_token(pool, &token, &token, BY_FILE));
    EXPECT_ERROR(DOUBLE_FREE, share_token(pool, freed, &token, BY_FILE));
    EXPECT_INVALID(mend_import(pool, &token, 0, &pointer, NULL));
    const mend_export_options *by_fabric =
        KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC);
    EXPECT_INVALID(mend_export(pool, block, by_fabric, NULL, sizeof(token), &size, NULL));
    EXPECT_INVALID(share_token(pool, block, &token, .kind = 7));
    if (r->by_fabric) {
        EXPECT_REFUSAL(INVALID_ARGUMENT, "the array has 10",
                       mend_export(pool, block, by_fabric, &token, 10, NULL, NULL));
    }
    EXPECT_INVALID(mend_import_close(pool, NULL, NULL));
    EXPECT_ERROR(FOREIGN_POINTER, mend_import_close(pool, block, NULL));
    EXPECT_INT_EQ(7, token.bytes[0]);
    EXPECT_OK(share_token_at(pool, block + 1000, &token, &offset, BY_FILE));
    EXPECT_U64_EQ(1000, offset);
    mend_world alone;
    ASSERT_TRUE(share_open(&alone, 0, MEND_SIM_FABRIC_WORKS));
    EXPECT_REFUSAL(NOT_SUPPORTED, "mend_pool_config.shareable",
                   share_token(alone.pool, kit_alloc(&alone, CHUNK, NULL), &token, BY_FILE));
    kit_close(&alone);
}
