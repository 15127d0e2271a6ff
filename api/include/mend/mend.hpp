/*
 * Mend in C++17: RAII owners, exceptions instead of results, and a std::pmr resource. Only this
 * header: link libmend as a C program does. The conventions of mend.h hold. Several threads may use
 * a class, but one object only one thread at a time. cuda::mr resources: mend_cuda.hpp.
 */
#ifndef MEND_MEND_HPP
#define MEND_MEND_HPP

#if __cplusplus < 201703L
#error "mend.hpp needs C++17: compile with -std=c++17, or use mend.h, which is C"
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mend/mend.h"
#include "mend/mend_devices.h"

namespace mend
{

/* ---- failures -------------------------------------------------------------------------------- */

/* A call that failed for another reason than missing memory. what() is the message of
 * mend_get_last_error. */
class error : public std::runtime_error
{
  public:
    error(mend_result result, int driver_status, const char *message)
        : std::runtime_error(message), result_(result), driver_status_(driver_status)
    {
    }
    mend_result result() const noexcept { return result_; }
    int driver_status() const noexcept { return driver_status_; } /* 0: no driver call failed */

  private:
    mend_result result_;
    int driver_status_;
};

/* Memory or addresses are missing: of the device, the pool's limit, or the host. A std::bad_alloc,
 * so code that frees something and tries again needs no change. */
class out_of_memory : public std::bad_alloc
{
  public:
    explicit out_of_memory(const mend_error &failure)
        : details_(std::make_shared<const details>(
              details{failure.result, failure.message, failure.oom_report != nullptr,
                      failure.oom_report != nullptr ? *failure.oom_report : mend_oom_report{}}))
    {
    }
    const char *what() const noexcept override { return details_->message.c_str(); }
    mend_result result() const noexcept { return details_->result; }
    /* The state of the pool that ran out of memory, otherwise nullptr. Valid as long as a copy of
     * this exception. */
    const mend_oom_report *oom_report() const noexcept
    {
        return details_->has_oom_report ? &details_->oom_report : nullptr;
    }

  private:
    struct details {
        mend_result result;
        std::string message;
        bool has_oom_report;
        mend_oom_report oom_report;
    };
    std::shared_ptr<const details> details_; /* so that a copy cannot fail */
};

namespace detail
{
#if defined(__ELF__)
/* mend_sim_last_message, if the program is linked with the simulator. Otherwise NULL. */
extern "C" const char *mend_detail_sim_message() __asm__("mend_sim_last_message")
    __attribute__((weak));
#endif

/* The reason of a failure of the simulator, which sets no last error. */
inline std::string reason_beside_last_error(mend_result result)
{
    std::string text = mend_result_name(result);
#if defined(__ELF__)
    const bool may_be_its =
        result == MEND_ERROR_INVALID_ARGUMENT || result == MEND_ERROR_DEVICE_LOST;
    const bool is_asked = may_be_its && mend_detail_sim_message != nullptr;
    const char *reason = is_asked ? mend_detail_sim_message() : "";
    text = *reason != 0 ? text + ": " + reason : text;
#endif
    return text;
}
} // namespace detail

/* Throw the exception of a result, except MEND_OK, for the last call of this thread, of the
 * simulator too. */
inline void check(mend_result result)
{
    if (result == MEND_OK) {
        return;
    }
    mend_error failure = MEND_ERROR_INIT;
    mend_get_last_error(&failure);
    std::string reason; /* of a call that keeps no last error */
    if (failure.result != result) {
        reason = detail::reason_beside_last_error(result);
        failure = MEND_ERROR_INIT;
        failure.result = result;
        failure.message = reason.c_str();
    }
    switch (result) {
    case MEND_ERROR_OUT_OF_MEMORY:
    case MEND_ERROR_OUT_OF_HOST_MEMORY:
    case MEND_ERROR_OUT_OF_ADDRESS_SPACE:
        throw out_of_memory(failure);
    default:
        throw error(result, failure.driver_status, failure.message);
    }
}

namespace detail
{

/* For destructors, which cannot report a failure: log it. */
inline void log_failure(mend_result result, const char *what) noexcept
{
    if (result != MEND_OK) {
        mend_error failure = MEND_ERROR_INIT;
        mend_get_last_error(&failure);
        char line[1200];
        std::snprintf(line, sizeof(line), "%s: %s", what, failure.message);
        mend_log_write(MEND_LOG_WARNING, line);
    }
}

/* For resources, whose requests may be 0 or too large. */
inline void *alloc(mend_pool *pool, std::size_t size_bytes, std::size_t alignment_bytes,
                   mend_stream stream)
{
    constexpr std::size_t most_bytes = std::size_t{1} << 60;
    if (size_bytes > most_bytes) {
        throw std::bad_alloc();
    }
    void *data = nullptr;
    mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
    options.alignment_bytes = alignment_bytes;
    check(mend_alloc_with(pool, size_bytes != 0 ? size_bytes : 1, stream, &options, &data));
    return data;
}

} // namespace detail

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A block of device memory, freed in the order of its stream. */
class block
{
  public:
    block() noexcept = default;
    /* Take over a live block of the pool. */
    block(mend_pool *pool, void *data, std::uint64_t size_bytes, mend_stream stream) noexcept
        : pool_(pool), data_(data), size_bytes_(size_bytes), stream_(stream)
    {
    }
    block(block &&other) noexcept { swap(other); }
    block &operator=(block &&other) noexcept
    {
        block taken(std::move(other));
        taken.swap(*this);
        return *this;
    }
    block(const block &) = delete;
    block &operator=(const block &) = delete;
    ~block() { reset(); }

    void *data() const noexcept { return data_; }
    template <class T> T *as() const noexcept { return static_cast<T *>(data_); }
    std::uint64_t size_bytes() const noexcept { return size_bytes_; } /* as asked for */
    mend_stream stream() const noexcept { return stream_; }
    explicit operator bool() const noexcept { return data_ != nullptr; }

    /* Declare that `stream` also uses the block. Throws as mend_record_stream fails. */
    void use_on(mend_stream stream) const { check(mend_record_stream(pool_, data_, stream)); }

    /* Free the block in the order of `stream` later. You order the two streams. */
    void set_stream(mend_stream stream) noexcept { stream_ = stream; }
    /* Free it now. A failure is logged, and the block is given up. */
    void reset() noexcept
    {
        if (data_ != nullptr) {
            detail::log_failure(mend_free(pool_, data_, stream_), "~mend::block");
            data_ = nullptr;
            size_bytes_ = 0;
        }
    }
    /* Hand over the block: you free it with mend_free. */
    [[nodiscard]] void *release() noexcept
    {
        size_bytes_ = 0;
        return std::exchange(data_, nullptr);
    }
    void swap(block &other) noexcept
    {
        std::swap(pool_, other.pool_);
        std::swap(data_, other.data_);
        std::swap(size_bytes_, other.size_bytes_);
        std::swap(stream_, other.stream_);
    }

  private:
    mend_pool *pool_ = nullptr;
    void *data_ = nullptr;
    std::uint64_t size_bytes_ = 0;
    mend_stream stream_ = nullptr;
};

/* ---- pools ----------------------------------------------------------------------------------- */

/* A pool with another owner: the default pool of a device, or a `pool`. Copies are cheap. */
class pool_ref
{
  public:
    explicit pool_ref(mend_pool *pool) noexcept : pool_(pool) {}
    mend_pool *get() const noexcept { return pool_; }

    /* Allocate a block for use in the order of `stream`. Throws as mend_alloc fails. */
    [[nodiscard]] block alloc(std::uint64_t size_bytes, mend_stream stream) const
    {
        void *data = nullptr;
        check(mend_alloc(pool_, size_bytes, stream, &data));
        return block(pool_, data, size_bytes, stream);
    }

    /* The same with options. */
    [[nodiscard]] block alloc(std::uint64_t size_bytes, mend_stream stream,
                              const mend_alloc_options &options) const
    {
        void *data = nullptr;
        check(mend_alloc_with(pool_, size_bytes, stream, &options, &data));
        return block(pool_, data, size_bytes, stream);
    }
    /* Call it before you destroy a stream. */
    void unregister_stream(mend_stream stream) const
    {
        check(mend_unregister_stream(pool_, stream));
    }
    void set_limit(std::uint64_t limit_bytes) const { check(mend_set_limit(pool_, limit_bytes)); }
    /* Release free memory above `keep_bytes`. Returns the released bytes. */
    std::uint64_t trim(std::uint64_t keep_bytes = 0, mend_trim_mode mode = MEND_TRIM_IDLE) const
    {
        std::uint64_t released_bytes = 0;
        check(mend_trim(pool_, keep_bytes, mode, &released_bytes));
        return released_bytes;
    }

    /* Copy live blocks together, at a safe point: see mend_compact. */
    mend_compact_report compact(const mend_compact_limits *limits = nullptr) const
    {
        mend_compact_report report = MEND_COMPACT_REPORT_INIT;
        check(mend_compact(pool_, limits, &report));
        return report;
    }
    mend_stats stats() const
    {
        mend_stats stats = MEND_STATS_INIT;
        check(mend_get_stats(pool_, &stats));
        return stats;
    }
    /* How much could be allocated for `stream`. */
    mend_available available(mend_stream stream) const
    {
        mend_available available = MEND_AVAILABLE_INIT;
        check(mend_get_available(pool_, stream, &available));
        return available;
    }
    /* The live block that contains `pointer`. */
    mend_block_info info(const void *pointer) const
    {
        mend_block_info info = MEND_BLOCK_INFO_INIT;
        check(mend_get_block_info(pool_, pointer, &info));
        return info;
    }
    friend bool operator==(pool_ref a, pool_ref b) noexcept { return a.pool_ == b.pool_; }
    friend bool operator!=(pool_ref a, pool_ref b) noexcept { return a.pool_ != b.pool_; }

  protected:
    mend_pool *pool_;
};

/* The pool that hooks of a device use. The library owns it. */
inline pool_ref default_pool(int device)
{
    mend_pool *pool = nullptr;
    check(mend_pool_for_device(device, &pool));
    return pool_ref(pool);
}

/* A pool that this object owns. Its blocks, graph pools, pins, callbacks and resources end before
 * it. */
class pool : public pool_ref
{
  public:
    /* Throws as mend_pool_create fails. */
    explicit pool(const mend_pool_config &config = MEND_POOL_CONFIG_INIT) : pool_ref(nullptr)
    {
        check(mend_pool_create(&config, &pool_));
    }
    pool(pool &&other) noexcept : pool_ref(std::exchange(other.pool_, nullptr)) {}
    pool &operator=(pool &&other) noexcept
    {
        pool taken(std::move(other));
        std::swap(pool_, taken.pool_);
        return *this;
    }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    /* Waits for the context's work. */
    ~pool() { detail::log_failure(mend_pool_destroy(pool_), "~mend::pool"); }
};

/* ---- graph pools ----------------------------------------------------------------------------- */

/* Memory of captured graphs: see mend_graph_pools.h. */
class graph_pool
{
  public:
    explicit graph_pool(pool_ref pool) : pool_(pool)
    {
        check(mend_graph_pool_create(pool.get(), &graph_pool_));
    }
    graph_pool(graph_pool &&other) noexcept
        : pool_(other.pool_), graph_pool_(std::exchange(other.graph_pool_, nullptr))
    {
    }
    graph_pool &operator=(graph_pool &&other) noexcept
    {
        graph_pool taken(std::move(other));
        std::swap(pool_, taken.pool_);
        std::swap(graph_pool_, taken.graph_pool_);
        return *this;
    }
    graph_pool(const graph_pool &) = delete;
    graph_pool &operator=(const graph_pool &) = delete;
    /* As destroy(MEND_NO_STREAM): launch no graph again that uses the memory, which is free after
     * the next wait for the context. */
    ~graph_pool()
    {
        if (graph_pool_ != nullptr) {
            detail::log_failure(mend_graph_pool_destroy(graph_pool_, MEND_NO_STREAM),
                                "~mend::graph_pool");
        }
    }
    mend_graph_pool *get() const noexcept { return graph_pool_; }

    /* While it exists, allocations and frees of its stream belong to the graph pool. */
    class scope
    {
      public:
        scope(mend_graph_pool *graph_pool, mend_stream stream) : graph_pool_(graph_pool)
        {
            check(mend_graph_pool_begin(graph_pool, stream));
        }
        scope(const scope &) = delete;
        scope &operator=(const scope &) = delete;
        ~scope()
        {
            detail::log_failure(mend_graph_pool_end(graph_pool_), "~mend::graph_pool::scope");
        }

      private:
        mend_graph_pool *graph_pool_;
    };
    /* Create it before the capture begins. */
    [[nodiscard]] scope begin(mend_stream stream) const { return scope(graph_pool_, stream); }

    /* A block of the graph pool, whether it is begun or not. */
    [[nodiscard]] block alloc(std::uint64_t size_bytes, mend_stream stream) const
    {
        mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
        options.graph_pool = graph_pool_;
        return pool_.alloc(size_bytes, stream, options);
    }
    /* The live blocks of the graph pool, for restore. */
    std::vector<mend_graph_pool_block> blocks() const
    {
        std::vector<mend_graph_pool_block> found;
        std::size_t count = 0;
        check(mend_graph_pool_checkpoint(graph_pool_, nullptr, sizeof(mend_graph_pool_block), 0,
                                         &count));
        do { /* until no other thread has made it too small */
            found.resize(count);
            check(mend_graph_pool_checkpoint(graph_pool_, found.data(),
                                             sizeof(mend_graph_pool_block), found.size(), &count));
        } while (count > found.size());
        found.resize(count);
        return found;
    }
    void restore(const std::vector<mend_graph_pool_block> &blocks) const
    {
        check(mend_graph_pool_restore(graph_pool_, blocks.data(), sizeof(mend_graph_pool_block),
                                      blocks.size()));
    }

    /* Destroy the graph pool. Every launch of its graphs must precede this point of `stream`. If it
     * throws, the graph pool is unchanged. */
    void destroy(mend_stream stream)
    {
        check(mend_graph_pool_destroy(graph_pool_, stream));
        graph_pool_ = nullptr;
    }

  private:
    pool_ref pool_;
    mend_graph_pool *graph_pool_ = nullptr;
};

/* ---- pins and callbacks ---------------------------------------------------------------------- */

/* A range that keeps its address and its physical memory while this exists: see mend_pin. */
class pin
{
  public:
    pin(pool_ref pool, const void *pointer, std::uint64_t size_bytes)
        : pool_(pool), pointer_(pointer), size_bytes_(size_bytes)
    {
        check(mend_pin(pool.get(), pointer, size_bytes));
    }
    pin(pin &&other) noexcept
        : pool_(other.pool_), pointer_(std::exchange(other.pointer_, nullptr)),
          size_bytes_(other.size_bytes_)
    {
    }
    pin(const pin &) = delete;
    pin &operator=(const pin &) = delete;
    ~pin()
    {
        if (pointer_ != nullptr) {
            detail::log_failure(mend_unpin(pool_.get(), pointer_, size_bytes_), "~mend::pin");
        }
    }

  private:
    pool_ref pool_;
    const void *pointer_;
    std::uint64_t size_bytes_;
};

/* A pressure callback while this exists: see mend_pressure_callback. The function gets the needed
 * bytes, and returns true if it freed any. An exception counts as false. Several threads may be
 * inside it at once. It may destroy this object. */
class pressure_callback
{
  public:
    using function = std::function<bool(std::uint64_t needed_bytes)>;
    pressure_callback(pool_ref pool, function make_room)
        : pool_(pool), callee_(std::make_shared<callee>(std::move(make_room)))
    {
        check(mend_add_pressure_callback(pool.get(), call, callee_.get()));
    }
    pressure_callback(const pressure_callback &) = delete;
    pressure_callback &operator=(const pressure_callback &) = delete;
    ~pressure_callback()
    {
        detail::log_failure(mend_remove_pressure_callback(pool_.get(), call, callee_.get()),
                            "~mend::pressure_callback");
    }

  private:
    struct callee : std::enable_shared_from_this<callee> {
        explicit callee(function given) : make_room(std::move(given)) {}
        function make_room;
    };
    static int call(void *context, mend_pool *, std::uint64_t needed_bytes) noexcept
    {
        try {
            const auto running = static_cast<callee *>(context)->shared_from_this();
            return running->make_room(needed_bytes) ? 1 : 0;
        } catch (...) {
            mend_log_write(MEND_LOG_WARNING, "a pressure callback threw an exception");
            return 0;
        }
    }
    pool_ref pool_;
    std::shared_ptr<callee> callee_;
};

/* ---- std::pmr -------------------------------------------------------------------------------- */

/*
 * Device memory for users of a std::pmr::memory_resource that do not touch the memory on the CPU:
 * polymorphic_allocator::allocate_bytes, containers of handles. The pools and buffers of std::pmr
 * write into their memory, so do not use them. Allocations and deallocations are in the order of
 * one stream. Two resources are equal if pool and stream are, or without RTTI only if they are the
 * same object.
 */
class memory_resource final : public std::pmr::memory_resource
{
  public:
    explicit memory_resource(pool_ref pool, mend_stream stream = MEND_NO_STREAM) noexcept
        : pool_(pool), stream_(stream)
    {
    }
    pool_ref pool() const noexcept { return pool_; }
    mend_stream stream() const noexcept { return stream_; }

  private:
    void *do_allocate(std::size_t size_bytes, std::size_t alignment_bytes) override
    {
        return detail::alloc(pool_.get(), size_bytes, alignment_bytes, stream_);
    }
    void do_deallocate(void *data, std::size_t, std::size_t) override
    {
        detail::log_failure(mend_free(pool_.get(), data, stream_), "mend::memory_resource");
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#if defined(__cpp_rtti)
        const auto *same = dynamic_cast<const memory_resource *>(&other);
        return same != nullptr && same->pool_ == pool_ && same->stream_ == stream_;
#else
        return &other == this;
#endif
    }
    pool_ref pool_;
    mend_stream stream_;
};

} // namespace mend

#endif
