// PyTorch's memory pools: which requests they take, and checkpoints of them (CUDA graph trees).
#pragma once

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "convert.hpp"

namespace mend_torch
{

// A pool with an allocator of the user's, which PyTorch's own allocator keeps.
inline bool is_foreign(DeviceIndex device, PoolId id)
{
    return info_of(device, id_of(id)).is_foreign != 0;
}

// The filter of a pool, as C calls it.
inline int takes(void *context, mend_stream stream)
{
    const auto cuda_stream = reinterpret_cast<cudaStream_t>(stream);
    if (!(*static_cast<std::function<bool(cudaStream_t)> *>(context))(cuda_stream)) {
        return 0;
    }
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cuda_stream != nullptr && cudaStreamIsCapturing(cuda_stream, &status) != cudaSuccess) {
        (void)cudaGetLastError();
    }
    return status == cudaStreamCaptureStatusNone ? MEND_TORCH_TAKES : MEND_TORCH_TAKES_CAPTURED;
}

inline void drop_filter(void *context)
{
    delete static_cast<std::function<bool(cudaStream_t)> *>(context);
}

// The live blocks of a pool, to restore them.
struct Checkpoint : cca::AllocatorState {
    PoolId id;
    std::vector<mend_graph_pool_block> blocks;
};

inline std::vector<mend_graph_pool_block> live_blocks(DeviceIndex device, PoolId id)
{
    std::vector<mend_graph_pool_block> blocks;
    mend_graph_pool *graph_pool = info_of(device, id_of(id)).graph_pool;
    size_t count = 0;
    while (graph_pool != nullptr) {
        check(mend_graph_pool_checkpoint(graph_pool, blocks.data(), sizeof(mend_graph_pool_block),
                                         blocks.size(), &count),
              "the blocks of a pool");
        if (count <= blocks.size()) {
            break;
        }
        blocks.resize(count);
    }
    blocks.resize(count);
    return blocks;
}

inline std::shared_ptr<Checkpoint> checkpoint_of(DeviceIndex device, PoolId id)
{
    auto state = std::make_shared<Checkpoint>();
    state->id = id;
    state->blocks = live_blocks(device, id);
    return state;
}

// PyTorch hears that all blocks before are freed and all of the checkpoint allocated. Those in both
// stay as they are.
inline cca::CheckpointDelta go_back_to(const Checkpoint &checkpoint, DeviceIndex device)
{
    cca::CheckpointDelta delta;
    mend_graph_pool *graph_pool = info_of(device, id_of(checkpoint.id)).graph_pool;
    TORCH_CHECK(graph_pool != nullptr || checkpoint.blocks.empty(),
                "setCheckpointPoolState: the pool is gone");
    for (const mend_graph_pool_block &block : live_blocks(device, checkpoint.id)) {
        delta.ptrs_freed.push_back(block.pointer);
    }
    if (graph_pool != nullptr) {
        check(mend_graph_pool_restore(graph_pool, checkpoint.blocks.data(),
                                      sizeof(mend_graph_pool_block), checkpoint.blocks.size()),
              "a checkpoint");
    }
    for (const mend_graph_pool_block &block : checkpoint.blocks) {
        delta.dataptrs_allocd.push_back(tensor_of(block.pointer, device));
    }
    return delta;
}

inline bool are_live(DeviceIndex device, PoolId id, const std::unordered_set<void *> &expected)
{
    const auto blocks = live_blocks(device, id);
    return blocks.size() == expected.size() &&
           std::all_of(blocks.begin(), blocks.end(), [&](const mend_graph_pool_block &block) {
               return expected.count(block.pointer) != 0;
           });
}

} // namespace mend_torch
