// PyTorch's picture of memory from Mend's regions: segments are contiguous mapped addresses, split
// where the pool or the stream that they belong to changes.
#pragma once

#include <algorithm>
#include <vector>

#include "mend/mend_frameworks.h"
#include "requests.hpp"

namespace mend_torch
{

inline std::vector<mend_region> regions_of(mend_pool *heap)
{
    std::vector<mend_region> regions;
    size_t count = 0;
    while (mend_get_regions(heap, regions.data(), sizeof(mend_region), regions.size(), &count) ==
               MEND_OK &&
           count > regions.size()) {
        regions.resize(count + count / 8 + 8);
    }
    regions.resize(std::min(count, regions.size()));
    return regions;
}

inline PoolId pool_of(const mend_region &region)
{
    const mend_torch_pool_id id = region.graph_pool != nullptr
                                      ? mend_torch_pool_of_graph_pool(region.graph_pool)
                                      : mend_torch_pool_of_tag(region.tag);
    return {id.first, id.second};
}

inline cca::BlockInfo block_of(const mend_region &region, const History &history)
{
    cca::BlockInfo block;
    const bool is_live = region.kind == MEND_REGION_LIVE || region.kind == MEND_REGION_PAGE;
    block.size = region.size_bytes;
    block.requested_size =
        is_live ? mend_torch_block_requested(region.address, region.requested_bytes) : 0;
    block.allocated = is_live;
    block.active = is_live || region.is_pending != 0;
    block.requested_size = is_live || !block.active ? block.requested_size : block.size;
    if (is_live && history.is_recording()) {
        block.context_when_allocated = history.context_of(region.address);
    }
    return block;
}

inline void add_block(cca::SegmentInfo &segment, const mend_region &region, cca::BlockInfo block)
{
    if (block.allocated) {
        if (segment.allocated_size == 0) {
            segment.stream = reinterpret_cast<decltype(segment.stream)>(region.stream);
            segment.context_when_allocated = block.context_when_allocated;
        }
        segment.allocated_size += block.size;
        segment.active_size += block.size;
        segment.requested_size += block.requested_size;
    } else if (block.active) {
        segment.active_size += block.size;
    }
    segment.total_size += block.size;
    // Free memory beside free memory is one block.
    if (!segment.blocks.empty() && !segment.blocks.back().active && !block.active) {
        segment.blocks.back().size += block.size;
    } else {
        segment.blocks.push_back(std::move(block));
    }
}

// A segment has one stream, its live blocks'.
inline bool is_of_another_stream(const cca::SegmentInfo &segment, const mend_region &region)
{
    return (region.kind == MEND_REGION_LIVE || region.kind == MEND_REGION_PAGE) &&
           segment.allocated_size != 0 &&
           segment.stream != reinterpret_cast<decltype(segment.stream)>(region.stream);
}

// Memory of growing tensors, and remains of ended ones: they have their own addresses, so this is
// one segment without. All segments together are then the reserved memory.
inline void add_ranges(std::vector<cca::SegmentInfo> &to, size_t from, DeviceIndex device,
                       mend_pool *heap)
{
    mend_stats stats = MEND_STATS_INIT;
    uint64_t shown = 0;
    for (size_t i = from; i < to.size(); i++) {
        shown += to[i].total_size;
    }
    if (mend_get_stats(heap, &stats) != MEND_OK || stats.reserved_bytes <= shown) {
        return;
    }
    cca::SegmentInfo segment;
    segment.device = device;
    segment.is_large = true;
    segment.is_expandable = true;
    segment.total_size = stats.reserved_bytes - shown;
    cca::BlockInfo live;
    live.size = std::min<uint64_t>(stats.range_bytes, segment.total_size);
    live.requested_size = live.size;
    live.allocated = live.active = true;
    cca::BlockInfo rest;
    rest.size = segment.total_size - live.size;
    segment.allocated_size = segment.active_size = segment.requested_size = live.size;
    for (const auto &block : {live, rest}) {
        if (block.size > 0) {
            segment.blocks.push_back(block);
        }
    }
    to.push_back(std::move(segment));
}

// Appends the segments of a device. Of one pool, if it is one.
inline void add_segments(std::vector<cca::SegmentInfo> &to, DeviceIndex device, PoolId of,
                         const History &history)
{
    mend_pool *heap = nullptr;
    if (mend_pool_for_device(device, &heap) != MEND_OK) {
        return;
    }
    mend_usage usage = MEND_USAGE_INIT;
    (void)mend_get_usage(heap, nullptr, &usage); // which asks whether other streams have ended
    const void *before = nullptr;
    const size_t from = to.size();
    bool is_open = false;
    for (const mend_region &region : regions_of(heap)) {
        const PoolId id = pool_of(region);
        if (is_pool(of) && id != of) {
            is_open = false;
            continue;
        }
        if (!is_open || region.segment != before || to.back().owner_private_pool_id != id ||
            to.back().is_large == static_cast<bool>(region.is_small) ||
            is_of_another_stream(to.back(), region)) {
            to.emplace_back();
            to.back().device = device;
            to.back().address = reinterpret_cast<size_t>(region.address);
            to.back().is_large = !region.is_small;
            to.back().is_expandable = true;
            to.back().owner_private_pool_id = id;
        }
        add_block(to.back(), region, block_of(region, history));
        before = region.segment;
        is_open = true;
    }
    if (!is_pool(of)) {
        add_ranges(to, from, device, heap);
    }
}

inline void append(cca::SegmentInfo &to, const cca::BlockInfo &block)
{
    if (block.size > 0) {
        to.blocks.push_back(block);
    }
}

inline size_t end_of_blocks(const cca::SegmentInfo &segment)
{
    size_t end = segment.address;
    for (const auto &block : segment.blocks) {
        end += block.size;
    }
    return end;
}

// Memory up to an address that is not the pool's now.
inline void fill_up_to(cca::SegmentInfo &segment, size_t end)
{
    cca::BlockInfo rest;
    rest.size = end - end_of_blocks(segment);
    append(segment, rest);
}

// A tracker may register the segments of a snapshot, and hears of pinned ranges, so these are the
// segments.
inline void show_as_held(std::vector<cca::SegmentInfo> &segments, size_t from, Requests &requests)
{
    std::vector<cca::SegmentInfo> shown(segments.begin(),
                                        segments.begin() + static_cast<std::ptrdiff_t>(from));
    const auto range_of = [](const cca::SegmentInfo &segment) {
        return Held{segment.device, segment.owner_private_pool_id, segment.address,
                    segment.total_size};
    };
    for (size_t i = from; i < segments.size(); i++) {
        requests.hold(range_of(segments[i]), nullptr, nullptr);
    }
    for (size_t i = from; i < segments.size(); i++) {
        Held held = range_of(segments[i]);
        (void)requests.holds.find(held, &held);
        if (shown.size() == from || shown.back().address != held.address) {
            shown.push_back(segments[i]);
            shown.back().address = held.address;
            shown.back().blocks.clear();
        } else {
            shown.back().allocated_size += segments[i].allocated_size;
            shown.back().active_size += segments[i].active_size;
            shown.back().requested_size += segments[i].requested_size;
        }
        fill_up_to(shown.back(), segments[i].address);
        for (const auto &block : segments[i].blocks) {
            append(shown.back(), block);
        }
        shown.back().total_size = held.size;
    }
    for (size_t i = from; i < shown.size(); i++) {
        fill_up_to(shown[i], shown[i].address + shown[i].total_size);
    }
    segments = std::move(shown);
}

// Adds Mend's memory to a snapshot of PyTorch's own allocator.
inline cca::SnapshotInfo completed(cca::SnapshotInfo info, PoolId id, bool with_traces,
                                   Requests &requests, int device_count)
{
    requests.tell_mappings(nullptr);
    info.device_traces.resize(
        std::max<size_t>(info.device_traces.size(), static_cast<size_t>(device_count)));
    for (int i = 0; i < device_count; i++) {
        const auto device = static_cast<DeviceIndex>(i);
        if (requests.has_begun[i].load()) {
            const size_t before = info.segments.size();
            add_segments(info.segments, device, id, requests.history);
            if (is_pool(id) && requests.history.has_trackers()) {
                show_as_held(info.segments, before, requests);
            }
        }
        if (with_traces) {
            auto &trace = info.device_traces[static_cast<size_t>(i)];
            const auto ours = requests.history.traces(device, id);
            trace.insert(trace.end(), ours.begin(), ours.end());
            std::stable_sort(trace.begin(), trace.end(), [](const Entry &a, const Entry &b) {
                return a.time_.t_ < b.time_.t_;
            });
        }
    }
    requests.history.note({Entry::SNAPSHOT, 0, 0, 0, nullptr, id}, nullptr); // newer than the
                                                                             // snapshot
    info.external_annotations.clear();
    requests.history.add_annotations(info.external_annotations);
    return info;
}

} // namespace mend_torch
