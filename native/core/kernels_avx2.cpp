#include "kernels_headers.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#define POOLGRAD_ISA avx2
#define POOLGRAD_ISA_NAME "avx2"
#define POOLGRAD_AVX2
#include "kernels.inl"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
