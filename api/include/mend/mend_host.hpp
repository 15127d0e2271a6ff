/* Blocks on the host, in C++17: mend_host.h. As mend.hpp. */
#ifndef MEND_MEND_HOST_HPP
#define MEND_MEND_HOST_HPP

#include "mend/mend.hpp"
#include "mend/mend_host.h"

namespace mend
{

/* While it lives, blocks that the thread allocates may be on the host, or may not. */
class host_allowed
{
  public:
    explicit host_allowed(bool allowed = true) noexcept
        : before_(mend_set_host_allowed(allowed ? 1 : 0))
    {
    }
    ~host_allowed() { mend_set_host_allowed(before_); }
    host_allowed(const host_allowed &) = delete;
    host_allowed &operator=(const host_allowed &) = delete;

  private:
    int before_;
};

/* Moves blocks with one of these sleep tags, or all blocks, to the host or back: see mend_move. */
inline mend_move_report move_to(pool_ref pool, mend_move_target target,
                                const std::vector<std::uint64_t> &tags = {})
{
    mend_move_report report = MEND_MOVE_REPORT_INIT;
    check(mend_move(pool.get(), target, tags.data(), tags.size(), &report));
    return report;
}

} // namespace mend

#endif
