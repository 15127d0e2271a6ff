/* The C++ part of PyTorch's hook. */
#ifndef MEND_HOOKS_TORCH_RAISE_H
#define MEND_HOOKS_TORCH_RAISE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Throws a std::runtime_error with a copy of this text. */
__attribute__((noreturn)) void mend_torch_throw(const char *message);

#ifdef __cplusplus
}
#endif

#endif
