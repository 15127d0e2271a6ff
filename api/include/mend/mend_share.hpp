/*
 * Memory shared with other processes, in C++17: mend_share.h with an owner of imports and
 * exceptions. The conventions of mend.hpp hold.
 */
#ifndef MEND_MEND_SHARE_HPP
#define MEND_MEND_SHARE_HPP

#include "mend/mend.hpp"
#include "mend/mend_share.h"

namespace mend
{

/* The data to send to the importers, in any way. The export ends when its block is freed, or a page
 * of it is decommitted. */
struct exported {
    std::vector<unsigned char> token;
    std::uint64_t offset_bytes = 0; /* of the pointer, in the exported memory */
};

/* Export the block around a pointer, or pages of a range: see mend_export. */
inline exported export_memory(pool_ref pool, const void *pointer,
                              const mend_export_options *options = nullptr)
{
    exported made;
    std::size_t size_bytes = MEND_EXPORT_TOKEN_BYTES;
    do { /* until no other thread has moved the block into more chunks */
        made.token.resize(size_bytes);
        check(mend_export(pool.get(), pointer, options, made.token.data(), made.token.size(),
                          &size_bytes, &made.offset_bytes));
    } while (size_bytes > made.token.size());
    made.token.resize(size_bytes);
    return made;
}

/* Memory of another process, mapped while this lives. Destroy it before its pool. */
class imported
{
  public:
    imported(pool_ref pool, const void *token, std::size_t token_bytes,
             mend_stream stream = MEND_NO_STREAM)
        : pool_(pool), stream_(stream)
    {
        check(mend_import(pool.get(), token, token_bytes, &data_, &size_bytes_));
    }
    imported(imported &&other) noexcept
        : pool_(other.pool_), data_(std::exchange(other.data_, nullptr)),
          size_bytes_(std::exchange(other.size_bytes_, 0)), stream_(other.stream_)
    {
    }
    imported &operator=(imported &&other) noexcept
    {
        imported taken(std::move(other));
        std::swap(pool_, taken.pool_);
        std::swap(data_, taken.data_);
        std::swap(size_bytes_, taken.size_bytes_);
        std::swap(stream_, taken.stream_);
        return *this;
    }
    imported(const imported &) = delete;
    imported &operator=(const imported &) = delete;
    /* Close it after the work queued on its stream. With MEND_NO_STREAM the CPU waits for the
     * context. */
    ~imported()
    {
        if (data_ != nullptr) {
            detail::log_failure(mend_import_close(pool_.get(), data_, stream_), "~mend::imported");
        }
    }

    void *data() const noexcept { return data_; }
    std::uint64_t size_bytes() const noexcept { return size_bytes_; }
    /* From now on `stream` is the one behind whose work it is closed. */
    void set_stream(mend_stream stream) noexcept { stream_ = stream; }

  private:
    pool_ref pool_;
    void *data_ = nullptr;
    std::uint64_t size_bytes_ = 0;
    mend_stream stream_;
};

} // namespace mend

#endif
