/*
 * Sleep and wake in C++17: mend_sleep.h with exceptions, and the sleep tag of a thread for a scope.
 * The conventions of mend.hpp hold.
 */
#ifndef MEND_MEND_SLEEP_HPP
#define MEND_MEND_SLEEP_HPP

#include "mend/mend.hpp"
#include "mend/mend_sleep.h"

namespace mend
{

/* While it lives, allocations of the thread have this sleep tag. */
class sleep_tag
{
  public:
    explicit sleep_tag(std::uint64_t tag) noexcept : before_(exchange(tag)) {}
    ~sleep_tag() { exchange(before_); }
    sleep_tag(const sleep_tag &) = delete;
    sleep_tag &operator=(const sleep_tag &) = delete;

  private:
    static std::uint64_t exchange(std::uint64_t tag) noexcept
    {
        mend_alloc_options options = MEND_ALLOC_OPTIONS_INIT;
        mend_set_alloc_options(nullptr, &options);
        std::swap(tag, options.sleep_tag);
        mend_set_alloc_options(&options, nullptr);
        return tag;
    }

    std::uint64_t before_;
};

/* Put blocks to sleep: without options all of them, with a backup in pinned host memory. */
inline mend_sleep_report sleep(const pool_ref &pool, const mend_sleep_options *options = nullptr)
{
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    check(mend_sleep(pool.get(), options, &report));
    return report;
}

/* Wake memory with one of these sleep tags, or without tags all sleeping memory. */
inline mend_wake_report wake(const pool_ref &pool, const std::vector<std::uint64_t> &tags = {})
{
    mend_wake_report report = MEND_WAKE_REPORT_INIT;
    check(mend_wake(pool.get(), tags.data(), tags.size(), &report));
    return report;
}

} // namespace mend

#endif
