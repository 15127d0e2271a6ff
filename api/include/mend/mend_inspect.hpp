/*
 * Scopes, regions and the history of mend_inspect.h in C++17. The conventions of mend.hpp hold.
 */
#ifndef MEND_MEND_VIEWS_HPP
#define MEND_MEND_VIEWS_HPP

#include "mend/mend.hpp"

namespace mend
{

namespace detail
{

/* Calls `list` until no other thread has made the array too small: `list(array, capacity, &count)`.
 */
template <class Element, class List> std::vector<Element> all_of(const List &list)
{
    std::vector<Element> found(64);
    std::size_t count = 0;
    check(list(found.data(), found.size(), &count));
    while (count > found.size()) {
        found.resize(count);
        check(list(found.data(), found.size(), &count));
    }
    found.resize(count);
    return found;
}

} // namespace detail

/* While it lives, allocations of the thread count for a scope of this name. If it cannot be named
 * they count for the outer scope, and nothing is thrown. */
class scope
{
  public:
    explicit scope(const char *name, unsigned flags = 0) noexcept { mend_scope_push(name, flags); }
    ~scope() { mend_scope_pop(); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
};

/* The scopes in which the pool has allocated, each before its inner ones. */
inline std::vector<mend_scope_info> scopes(pool_ref pool)
{
    return detail::all_of<mend_scope_info>(
        [pool](mend_scope_info *infos, std::size_t capacity, std::size_t *count) {
            return mend_get_scopes(pool.get(), infos, sizeof(*infos), capacity, count);
        });
}

/* All memory of the pool by rising address, as one consistent picture. */
inline std::vector<mend_region> regions(pool_ref pool)
{
    return detail::all_of<mend_region>(
        [pool](mend_region *found, std::size_t capacity, std::size_t *count) {
            return mend_get_regions(pool.get(), found, sizeof(*found), capacity, count);
        });
}

/* While it lives, the pool keeps its last events. A pool has one history. Destroy it before the
 * pool. */
class history
{
  public:
    history(pool_ref pool, std::uint64_t capacity_events) : pool_(pool)
    {
        check(mend_history_start(pool.get(), capacity_events));
    }
    history(const history &) = delete;
    history &operator=(const history &) = delete;
    ~history() { detail::log_failure(mend_history_start(pool_.get(), 0), "~mend::history"); }

    /* The events since the last read, the oldest first, at most so many. A gap in their sequence
     * means that events were overwritten first. */
    std::vector<mend_history_event> read(std::size_t most = 4096)
    {
        std::vector<mend_history_event> events(most);
        std::size_t count = 0;
        check(mend_history_read(pool_.get(), &cursor_, events.data(), sizeof(mend_history_event),
                                events.size(), &count));
        events.resize(count);
        return events;
    }

  private:
    pool_ref pool_;
    std::uint64_t cursor_ = 0;
};

} // namespace mend

#endif
