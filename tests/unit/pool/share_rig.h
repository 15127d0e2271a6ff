/* Two devices of this process play two processes: one exports, by file descriptor or by fabric
 * handle, and the other imports. */
#ifndef MEND_TESTS_UNIT_POOL_SHARE_RIG_H
#define MEND_TESTS_UNIT_POOL_SHARE_RIG_H

#include "mend/mend_share.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB

/* A token, or a description. */
typedef struct share_ticket {
    bool by_fabric;
    mend_export_token token;
    size_t size;
    unsigned char bytes[2048];
} share_ticket;

typedef struct share_rig {
    mend_world from; /* exports */
    mend_world to;   /* imports. In the second way not shareable */
    bool by_fabric;
    int files;            /* open before there was anything */
    unsigned char *block; /* of share_rig_fill: two chunks and a bit, exported */
    share_ticket ticket;
} share_rig;

/* 16 chunks. */
bool share_open(mend_world *w, int shareable, mend_sim_fabric fabric);

bool share_rig_open(share_rig *r, bool by_fabric);
bool share_rig_fill(share_rig *r);
void share_rig_close(share_rig *r);

/* mend_export of a pointer by options, written as fields of the struct, to a token of some bytes.
 */
#define share_token(pool, pointer, token, ...)                                                     \
    share_token_at(pool, pointer, token, NULL, __VA_ARGS__)
#define share_token_at(pool, pointer, token, offset_bytes, ...)                                    \
    mend_export(pool, pointer, KIT_OPTIONS(mend_export_options, __VA_ARGS__), token,               \
                MEND_EXPORT_TOKEN_BYTES, NULL, offset_bytes)
#define BY_FILE .kind = MEND_EXPORT_SOCKET

mend_result share_try_export(mend_pool *pool, const void *block, share_ticket *ticket);
mend_result share_try_import(mend_pool *pool, const share_ticket *ticket, void **pointer);
share_ticket share_export(share_rig *r, const void *block);
void *share_import(mend_world *w, const share_ticket *ticket);
void share_close(mend_world *w, void *pointer);
bool share_are_equal(const share_ticket *a, const share_ticket *b);

/* Imports the rig's block, looks and closes. *result is the first failure. */
bool share_imports(share_rig *r, mend_result *result);

/* A case in both ways, or in one, with a block that is exported. */
#define SHARE_TEST(suite, name)                                                                    \
    static void suite##_##name##_by(share_rig *r, mend_world *from, mend_world *to);               \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        for (int by_fabric = 0; by_fabric < 2; by_fabric++) {                                      \
            share_rig r;                                                                           \
            ASSERT_TRUE(share_rig_open(&r, by_fabric));                                            \
            suite##_##name##_by(&r, &r.from, &r.to);                                               \
            share_rig_close(&r);                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void suite##_##name##_by(KIT_UNUSED share_rig *r, KIT_UNUSED mend_world *from,          \
                                    KIT_UNUSED mend_world *to)
#define SHARED_TEST(suite, name, by_fabric)                                                        \
    KIT_BARE_TEST(suite, name, share_rig, share_rig_open(r, by_fabric) && share_rig_fill(r),       \
                  share_rig_close(r))

#endif
