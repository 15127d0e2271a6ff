// The exceptions of RMM, for machines without it.
#ifndef MEND_TESTS_RMM_ERROR
#define MEND_TESTS_RMM_ERROR

#include <new>
#include <string>

namespace rmm
{
class bad_alloc : public std::bad_alloc
{
  public:
    bad_alloc(const char *text) : what_(std::string("std::bad_alloc: ") + text) {}
    const char *what() const noexcept override { return what_.c_str(); }

  private:
    std::string what_;
};

class out_of_memory : public bad_alloc
{
  public:
    out_of_memory(const char *text) : bad_alloc((std::string("out_of_memory: ") + text).c_str()) {}
};
} // namespace rmm

#endif
