/* Mend itself, through its public interface. Only the explanation uses internals. */
#include <stdlib.h>

#include "base/align.h"
#include "lab/heap/explain.h"
#include "lab/peers/models.h"
#include "pool/pool.h"

typedef struct mend_adapter {
    mend_peer peer;
    mend_pool *pool;
} mend_adapter;

static mend_pool *pool_of(mend_peer *peer)
{
    return MEND_CONTAINER_OF(peer, mend_adapter, peer)->pool;
}

static mend_result adapter_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                                 uint64_t *address)
{
    void *pointer;
    mend_result result = mend_alloc(pool_of(peer), size_bytes, stream, &pointer);
    if (result == MEND_OK) {
        *address = (uint64_t)(uintptr_t)pointer;
    }
    return result;
}

/* A program whose allocations are safe points compacts and tries once more. */
static mend_result compact_and_alloc(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                                     uint64_t *address)
{
    mend_result result = adapter_alloc(peer, size_bytes, stream, address);
    if (result == MEND_ERROR_OUT_OF_MEMORY && mend_compact(pool_of(peer), NULL, NULL) == MEND_OK) {
        result = adapter_alloc(peer, size_bytes, stream, address);
    }
    return result;
}

static mend_result adapter_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    return mend_free(pool_of(peer), (void *)(uintptr_t)address, stream);
}

/* As PyTorch calls Mend: the streams that used a block are declared, and it is freed on its own. */
static mend_result declare_and_free(mend_peer *peer, uint64_t address, mend_stream stream)
{
    void *pointer = (void *)(uintptr_t)address;
    mend_block_info block = MEND_BLOCK_INFO_INIT;
    mend_result result = mend_get_block_info(pool_of(peer), pointer, &block);
    if (result == MEND_OK && stream != block.stream) {
        result = mend_record_stream(pool_of(peer), pointer, stream);
    }
    return result == MEND_OK ? mend_free(pool_of(peer), pointer, block.stream) : result;
}

/* As ONNX Runtime and Numba call Mend: without a stream. */
static mend_result alloc_without_stream(mend_peer *peer, uint64_t size_bytes, mend_stream stream,
                                        uint64_t *address)
{
    (void)stream;
    return adapter_alloc(peer, size_bytes, MEND_NO_STREAM, address);
}

static mend_result free_without_stream(mend_peer *peer, uint64_t address, mend_stream stream)
{
    (void)stream;
    return adapter_free(peer, address, MEND_NO_STREAM);
}

static void adapter_get_usage(mend_peer *peer, mend_peer_usage *usage)
{
    mend_stats stats = MEND_STATS_INIT;
    mend_get_stats(pool_of(peer), &stats);
    *usage = (mend_peer_usage){.reserved_bytes = stats.reserved_bytes,
                               .peak_reserved_bytes = stats.peak_reserved_bytes,
                               .copied_bytes = stats.copied_bytes,
#define X(name, counter) .placed.name = stats.counter,
                               MEND_PEER_PLACEMENTS(X)
#undef X
    };
}

static mend_result adapter_explain(mend_peer *peer, mend_stream asking,
                                   mend_explanation *explanation)
{
    return mend_pool_explain(pool_of(peer), asking, explanation);
}

static mend_result adapter_destroy(mend_peer *peer)
{
    mend_result result = mend_pool_destroy(pool_of(peer));
    free(MEND_CONTAINER_OF(peer, mend_adapter, peer));
    return result;
}

static const mend_peer_operations adapter_operations = {adapter_alloc, adapter_free,
                                                        adapter_get_usage, adapter_destroy};
static const mend_peer_operations compact_operations = {compact_and_alloc, adapter_free,
                                                        adapter_get_usage, adapter_destroy};
static const mend_peer_operations torch_operations = {adapter_alloc, declare_and_free,
                                                      adapter_get_usage, adapter_destroy};
static const mend_peer_operations streamless_operations = {
    alloc_without_stream, free_without_stream, adapter_get_usage, adapter_destroy};

static mend_result create(const mend_peer_config *config, const mend_peer_operations *operations,
                          mend_peer **peer)
{
    mend_adapter *adapter = calloc(1, sizeof(mend_adapter));
    if (adapter == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    adapter->peer.operations = operations;
    adapter->peer.explain = adapter_explain;
    mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
    pool_config.device = config->device;
    pool_config.driver = config->driver;
    pool_config.limit_bytes = config->limit_bytes;
    mend_result result = mend_pool_create(&pool_config, &adapter->pool);
    if (result != MEND_OK) {
        free(adapter);
        return result;
    }
    *peer = &adapter->peer;
    return MEND_OK;
}

mend_result mend_peer_create_mend(const mend_peer_config *config, mend_peer **peer)
{
    return create(config, &adapter_operations, peer);
}

mend_result mend_peer_create_mend_compact(const mend_peer_config *config, mend_peer **peer)
{
    return create(config, &compact_operations, peer);
}

mend_result mend_peer_create_mend_torch(const mend_peer_config *config, mend_peer **peer)
{
    return create(config, &torch_operations, peer);
}

mend_result mend_peer_create_mend_streamless(const mend_peer_config *config, mend_peer **peer)
{
    return create(config, &streamless_operations, peer);
}
