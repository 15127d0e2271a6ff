// Mend's class, put in the place of PyTorch's own CUDA allocator. Compiled against the headers of
// one minor version of PyTorch, as one source.
#include <cstdio>

#include "counted.hpp"

namespace mend_torch
{

static Allocator *installed; // never destroyed: tensors may outlive everything

void delete_block(void *pointer)
{
    installed->raw_delete(pointer);
}

#if MEND_TORCH >= 211
Backing counted(Backing backing)
{
    return std::make_shared<Counted>(std::move(backing));
}
#else
// PyTorch keeps the pointer as long as it likes, so there is one for each, which stays.
Backing counted(Backing backing)
{
    static std::mutex mutex;
    static std::unordered_map<Backing, Counted *> made;
    const std::lock_guard<std::mutex> lock(mutex);
    Counted *&one = made[backing];
    one = one != nullptr ? one : new Counted(backing);
    return one;
}
#endif

} // namespace mend_torch

// Puts Mend in the place of PyTorch's own allocator. 0: done, or done before. Otherwise `text` says
// why not. `device_count` is PyTorch's, or 0 before its initialization.
extern "C" MEND_API int mend_torch_install(int device_count, char *text, size_t capacity)
{
    using namespace mend_torch;
    try {
        if (installed != nullptr) {
            return 0;
        }
        auto *native = cca::allocator.load();
        TORCH_CHECK(native->name() == "native", "PyTorch's allocator is ", native->name(),
                    " already");
        TORCH_CHECK(!Native(native).holds_memory(device_count),
                    "PyTorch's own allocator has handed out memory already");
        installed = new Allocator(native);
        if (native->initialized()) {
            installed->init(device_count);
        }
        cca::allocator.store(installed);
#if MEND_TORCH >= 209
        c10::SetAllocator(c10::kCUDA, installed, 255);
#endif
        return 0;
    } catch (const std::exception &error) {
        snprintf(text, capacity, "%s", error.what());
        return 1;
    }
}
