/* See torch_raise.h: what PyTorch is to catch must be thrown by C++. */
#include "hooks/torch_raise.h"

#include <stdexcept>

void mend_torch_throw(const char *message)
{
    throw std::runtime_error(message);
}
