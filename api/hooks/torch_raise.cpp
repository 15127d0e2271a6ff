/* See torch_raise.h: only C++ can throw what PyTorch catches. */
#include "hooks/torch_raise.h"

#include <stdexcept>

void mend_torch_throw(const char *message)
{
    throw std::runtime_error(message);
}
