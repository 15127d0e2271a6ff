/* Of PyTorch's header: what Mend's C++ part uses. */
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#define C10_API __attribute__((visibility("default")))

namespace c10
{

struct SourceLocation {
    const char *function;
    const char *file;
    uint32_t line;
};

class C10_API Error : public std::exception
{
  public:
    Error(SourceLocation location, std::string message);
    const char *what() const noexcept override;

  private:
    std::string message_;
};

class C10_API OutOfMemoryError : public Error
{
  public:
    OutOfMemoryError(SourceLocation location, std::string message);
};

} // namespace c10
