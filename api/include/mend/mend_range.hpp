/*
 * Growable ranges in C++17: an owner over the calls of mend_range.h. The conventions of mend.hpp
 * hold.
 */
#ifndef MEND_MEND_RANGE_HPP
#define MEND_MEND_RANGE_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "mend/mend.hpp"
#include "mend/mend_range.h"

namespace mend
{

/* A range of addresses with memory in pages. Destroy it before its pool. */
class range
{
  public:
    /* Addresses for `size_bytes`, without memory. */
    range(pool_ref pool, std::uint64_t size_bytes, std::uint64_t page_bytes = 0,
          std::uint64_t tag = 0)
    {
        mend_range_options options = MEND_RANGE_OPTIONS_INIT;
        options.page_bytes = page_bytes;
        options.tag = tag;
        check(mend_range_create(pool.get(), size_bytes, &options, &range_));
        const mend_range_info all = info();
        data_ = static_cast<std::byte *>(all.base);
        size_bytes_ = all.size_bytes;
        page_bytes_ = all.page_bytes;
    }
    range(range &&other) noexcept
        : range_(std::exchange(other.range_, nullptr)), data_(std::exchange(other.data_, nullptr)),
          size_bytes_(std::exchange(other.size_bytes_, 0)), page_bytes_(other.page_bytes_)
    {
    }
    range &operator=(range &&other) noexcept
    {
        range taken(std::move(other));
        std::swap(range_, taken.range_);
        std::swap(data_, taken.data_);
        std::swap(size_bytes_, taken.size_bytes_);
        std::swap(page_bytes_, taken.page_bytes_);
        return *this;
    }
    range(const range &) = delete;
    range &operator=(const range &) = delete;
    /* As destroy(MEND_NO_STREAM): the memory is free after the next wait for the context. */
    ~range()
    {
        if (range_ != nullptr) {
            detail::log_failure(mend_range_destroy(range_, MEND_NO_STREAM), "~mend::range");
        }
    }

    mend_range *get() const noexcept { return range_; }
    std::byte *data() const noexcept { return data_; } /* never changes */
    std::uint64_t size_bytes() const noexcept { return size_bytes_; }
    std::uint64_t page_bytes() const noexcept { return page_bytes_; }
    std::uint64_t committed_bytes() const { return info().committed_bytes; }
    mend_range_info info() const
    {
        mend_range_info all = MEND_RANGE_INFO_INIT;
        check(mend_range_get_info(range_, &all));
        return all;
    }

    /* Throws mend::out_of_memory or mend::error, and then no new page is committed. */
    void commit(std::uint64_t offset_bytes, std::uint64_t size_bytes, mend_stream stream) const
    {
        check(mend_range_commit(range_, offset_bytes, size_bytes, stream));
    }
    /* Pages of this range, for commit_all. */
    mend_range_part part(std::uint64_t offset_bytes, std::uint64_t size_bytes) const noexcept
    {
        return {range_, offset_bytes, size_bytes};
    }
    void decommit(std::uint64_t offset_bytes, std::uint64_t size_bytes, mend_stream stream) const
    {
        check(mend_range_decommit(range_, offset_bytes, size_bytes, stream));
    }
    void record_stream(std::uint64_t offset_bytes, std::uint64_t size_bytes,
                       mend_stream stream) const
    {
        check(mend_range_record_stream(range_, offset_bytes, size_bytes, stream));
    }

    /* Destroy the range, in the order of the stream. If it throws, the range is unchanged. */
    void destroy(mend_stream stream)
    {
        check(mend_range_destroy(range_, stream));
        range_ = nullptr;
        data_ = nullptr;
        size_bytes_ = 0;
    }

  private:
    mend_range *range_ = nullptr;
    std::byte *data_ = nullptr;
    std::uint64_t size_bytes_ = 0;
    std::uint64_t page_bytes_ = 0;
};

/* Commit parts of several ranges of one pool in one step: all of them, or it throws and commits no
 * new page. Takes a vector, an array or a list. */
template <class Parts = std::initializer_list<mend_range_part>>
void commit_all(const Parts &parts, mend_stream stream)
{
    check(
        mend_range_commit_all(std::data(parts), sizeof(mend_range_part), std::size(parts), stream));
}

} // namespace mend

#endif
