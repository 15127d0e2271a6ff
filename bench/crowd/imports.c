/* Imports by fabric handles, which need no exporter that answers. The blocks share chunks, so that
 * few files are open. */
#include "crowd/imports.h"

#include <stdlib.h>

#include "mend/mend_share.h"

struct mend_crowd_token {
    size_t size_bytes;
    unsigned char bytes[64 + 2 * 72]; /* of up to two chunks */
};

static void export_block(const crowd *c, struct mend_crowd_token *token)
{
    void *block = NULL;
    mend_export_options by_fabric = MEND_EXPORT_OPTIONS_INIT;
    by_fabric.kind = MEND_EXPORT_FABRIC;
    mend_crowd_require(mend_alloc(c->exporter, LARGEST_BYTES, c->streams[0], &block) == MEND_OK,
                       "an allocation");
    mend_crowd_require(mend_export(c->exporter, block, &by_fabric, token->bytes,
                                   sizeof(token->bytes), &token->size_bytes, NULL) == MEND_OK &&
                           token->size_bytes <= sizeof(token->bytes),
                       "mend_export");
}

void mend_crowd_fill_imports(crowd *c)
{
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    config.driver = mend_sim_driver(c->sim);
    config.shareable = MEND_SHAREABLE_FABRIC;
    c->tokens = calloc(c->count, sizeof(*c->tokens));
    mend_crowd_require(c->tokens != NULL && mend_pool_create(&config, &c->exporter) == MEND_OK,
                       "a pool that exports");
    for (c->at = 0; c->at < c->count; c->at++) {
        export_block(c, &c->tokens[c->at]);
        mend_crowd_import(c);
    }
}

void mend_crowd_import(crowd *c)
{
    const struct mend_crowd_token *token = &c->tokens[c->at];
    mend_crowd_require(
        mend_import(c->pool, token->bytes, token->size_bytes, &c->blocks[c->at], NULL) == MEND_OK,
        "mend_import");
}

void mend_crowd_close_import(crowd *c)
{
    mend_crowd_require(mend_import_close(c->pool, c->blocks[c->at], c->streams[0]) == MEND_OK,
                       "mend_import_close");
}
