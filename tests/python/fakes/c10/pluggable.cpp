/*
 * A copy of the contract of PyTorch's CUDAPluggableAllocator: what it keeps of each block, what it
 * calls with which arguments and without which locks, and what it does not check. It takes NULL for
 * a pointer like any other.
 */
#include <c10/core/Allocator.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace
{

using stream_type = void *;

struct Metadata {
    size_t size;
    int device;
    stream_type stream;
};

using begin_type = void (*)(int, std::pair<uint64_t, uint64_t>, std::function<bool(stream_type)>);

struct Pluggable {
    void *(*alloc)(size_t, int, stream_type);
    void (*free)(void *, size_t, int, stream_type);
    void (*record_stream)(void *, stream_type);
    void *(*base_alloc)(void *, size_t *);
    void (*memory_fraction)(double, int);
    void (*reset)();
    void (*init)(int);
    begin_type begin_pool;
    std::mutex mutex;
    std::unordered_map<void *, Metadata> blocks;
};

enum outcome { DONE, OUT_OF_MEMORY, FAILED };

/* What a C++ exception becomes in Python. */
template <typename Call> int translated(char *text, size_t room, Call call)
{
    try {
        call();
        return DONE;
    } catch (const c10::OutOfMemoryError &error) {
        std::strncpy(text, error.what(), room - 1);
        return OUT_OF_MEMORY;
    } catch (const std::exception &error) {
        std::strncpy(text, error.what(), room - 1);
        return FAILED;
    }
}

} // namespace

extern "C" {

C10_API Pluggable *fake_pluggable_create(void *alloc, void *free)
{
    auto *made = new Pluggable{};
    made->alloc = reinterpret_cast<void *(*)(size_t, int, stream_type)>(alloc);
    made->free = reinterpret_cast<void (*)(void *, size_t, int, stream_type)>(free);
    return made;
}

C10_API void fake_pluggable_set(Pluggable *of, const char *what, void *function)
{
    if (std::strcmp(what, "record_stream") == 0) {
        of->record_stream = reinterpret_cast<void (*)(void *, stream_type)>(function);
    } else if (std::strcmp(what, "base_alloc") == 0) {
        of->base_alloc = reinterpret_cast<void *(*)(void *, size_t *)>(function);
    } else if (std::strcmp(what, "memory_fraction") == 0) {
        of->memory_fraction = reinterpret_cast<void (*)(double, int)>(function);
    } else if (std::strcmp(what, "reset") == 0) {
        of->reset = reinterpret_cast<void (*)()>(function);
    } else if (std::strcmp(what, "begin_pool") == 0) {
        of->begin_pool = reinterpret_cast<begin_type>(function);
    } else {
        of->init = reinterpret_cast<void (*)(int)>(function);
    }
}

C10_API int fake_pluggable_malloc(Pluggable *of, size_t size, int device, stream_type stream,
                                  void **pointer, char *text, size_t room)
{
    return translated(text, room, [&] {
        void *made = of->alloc(size, device, stream);
        const std::lock_guard<std::mutex> guard(of->mutex);
        of->blocks.emplace(made, Metadata{size, device, stream});
        *pointer = made;
    });
}

/* Forgets the block under the lock, and frees it without: with what it was allocated with. */
C10_API int fake_pluggable_free(Pluggable *of, void *pointer, char *text, size_t room)
{
    Metadata kept{};
    {
        const std::lock_guard<std::mutex> guard(of->mutex);
        const auto found = of->blocks.find(pointer);
        if (found == of->blocks.end()) {
            std::strncpy(text, "Trying to free a pointer not allocated here", room - 1);
            return FAILED;
        }
        kept = found->second;
        of->blocks.erase(found);
    }
    return translated(text, room, [&] { of->free(pointer, kept.size, kept.device, kept.stream); });
}

/* A segment of a MemPool: the allocator is called as it is, and NULL is out of memory. */
C10_API void *fake_pluggable_segment(Pluggable *of, size_t size, int device, stream_type stream)
{
    void *made = of->alloc(size, device, stream);
    if (made != nullptr) {
        const std::lock_guard<std::mutex> guard(of->mutex);
        of->blocks.emplace(made, Metadata{size, device, stream});
    }
    return made;
}

/* Without the setter these do nothing, and base_alloc answers the pointer it was given. */
C10_API void fake_pluggable_record_stream(Pluggable *of, void *pointer, stream_type stream)
{
    if (of->record_stream != nullptr) {
        of->record_stream(pointer, stream);
    }
}

C10_API void *fake_pluggable_base(Pluggable *of, void *pointer, size_t *size)
{
    return of->base_alloc != nullptr ? of->base_alloc(pointer, size) : pointer;
}

C10_API void fake_pluggable_fraction(Pluggable *of, double fraction, int device)
{
    if (of->memory_fraction != nullptr) {
        of->memory_fraction(fraction, device);
    }
}

C10_API void fake_pluggable_reset(Pluggable *of)
{
    if (of->reset != nullptr) {
        of->reset();
    }
}

/* What a capture begins with, and use of a MemPool: without the setter nothing is known of it. */
C10_API int fake_pluggable_begin_pool(Pluggable *of, int device, char *text, size_t room)
{
    return translated(text, room, [&] {
        if (of->begin_pool != nullptr) {
            of->begin_pool(device, {0, 1}, [](stream_type) { return true; });
        }
    });
}

C10_API void fake_pluggable_init(Pluggable *of, int device_count)
{
    if (of->init != nullptr) {
        of->init(device_count);
    }
}
}
