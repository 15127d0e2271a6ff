/* Scopes of mend_views.h in C++17. As mend.hpp. */
#ifndef MEND_MEND_SCOPE_HPP
#define MEND_MEND_SCOPE_HPP

#include "mend/mend.hpp"

namespace mend
{

/* While it lives, what the thread allocates counts for a scope of this name, inside the one around
 * it. One that cannot be named counts for that, too: nothing is thrown. */
class scope
{
  public:
    explicit scope(const char *name, unsigned flags = 0) noexcept { mend_scope_push(name, flags); }
    ~scope() { mend_scope_pop(); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
};

/* The scopes in which something was allocated in the pool, each before those inside it. */
inline std::vector<mend_scope_info> scopes(const pool_ref &pool)
{
    std::vector<mend_scope_info> infos;
    std::size_t count = 64;
    while (count > infos.size()) {
        infos.resize(count);
        check(mend_get_scopes(pool.get(), infos.data(), sizeof(mend_scope_info), infos.size(),
                              &count));
    }
    infos.resize(count);
    return infos;
}

} // namespace mend

#endif
