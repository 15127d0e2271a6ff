// An allocation and its free through c10's interface, as PyTorch's operators call it: the CPU time
// of one pair, in ns. bench/torch/pairs.py compiles and calls this.
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <ctime>
#include <random>
#include <vector>

#define SHOWN extern "C" __attribute__((visibility("default")))

using c10::cuda::CUDACachingAllocator::raw_alloc;
using c10::cuda::CUDACachingAllocator::raw_delete;

static double thread_ns()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// Allocates and frees one size. The first, which may call the driver, does not count.
SHOWN double pair_ns(uint64_t size_bytes, int count)
{
    raw_delete(raw_alloc(size_bytes));
    double start_ns = thread_ns();
    for (int i = 0; i < count; i++) {
        raw_delete(raw_alloc(size_bytes));
    }
    return (thread_ns() - start_ns) / count;
}

// Keeps `live` blocks of random sizes, and replaces a random one `count` times. The same number of
// replacements before that, which may call the driver, does not count.
SHOWN double random_ns(uint64_t least_bytes, uint64_t most_bytes, int live, int count,
                       uint32_t seed)
{
    std::mt19937 random(seed);
    std::uniform_int_distribution<uint64_t> size(least_bytes, most_bytes);
    std::uniform_int_distribution<size_t> place(0, static_cast<size_t>(live) - 1);
    std::vector<void *> blocks;
    for (int i = 0; i < live; i++) {
        blocks.push_back(raw_alloc(size(random)));
    }
    double start_ns = 0;
    for (int i = 0; i < 2 * count; i++) {
        if (i == count) {
            start_ns = thread_ns();
        }
        void *&block = blocks[place(random)];
        raw_delete(block);
        block = raw_alloc(size(random));
    }
    double spent_ns = thread_ns() - start_ns;
    for (void *block : blocks) {
        raw_delete(block);
    }
    return spent_ns / count;
}
