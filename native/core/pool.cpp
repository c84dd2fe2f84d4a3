#include "pool.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define POOLGRAD_KERNELS(isa)                               \
    namespace isa {                                         \
    void avg_pool(const AverageCall&);                      \
    void mean_pool(const AverageCall&);                     \
    void avg_pool_grad(const AverageCall&);                 \
    void max_pool(const MaxCall&);                          \
    int64_t max_pool_grad(const MaxCall&);                  \
    int64_t take_winners(const MaxCall&);                   \
    int64_t scatter_indices(const IndexCall&);              \
    int64_t gather_indices(const IndexCall&);               \
    void limit_copy(const CopyCall&);                       \
    static const Kernels kernels{#isa,                      \
                                 avg_pool,                  \
                                 mean_pool,                 \
                                 avg_pool_grad,             \
                                 max_pool,                  \
                                 max_pool_grad,             \
                                 take_winners,              \
                                 scatter_indices,           \
                                 gather_indices,            \
                                 limit_copy};               \
    }

namespace poolgrad {

POOLGRAD_KERNELS(baseline)
#if defined(__x86_64__)
POOLGRAD_KERNELS(avx2)
#endif

namespace {

const Kernels& choose() {
    const char* wanted = std::getenv("POOLGRAD_ISA");
    const std::string name = wanted ? wanted : "";
#if defined(__x86_64__)
    unsigned eax, ebx, ecx = 0, edx;
    // Not every compiler's __builtin_cpu_supports knows f16c; that the system saves the registers it has asked for avx2.
    const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
    const bool avx2 = __builtin_cpu_supports("avx2") && f16c;
#else
    const bool avx2 = false;
#endif
    if (name != "" && name != "baseline" && name != "avx2")
        throw std::invalid_argument("POOLGRAD_ISA is '" + name + "'; it must be 'baseline' or 'avx2', or not set");
    if (name == "avx2" && !avx2) throw std::invalid_argument("POOLGRAD_ISA is 'avx2', which this CPU does not have");
#if defined(__x86_64__)
    if (avx2 && name != "baseline") return avx2::kernels;
#endif
    return baseline::kernels;
}

}  // namespace

const Kernels& kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

}  // namespace poolgrad
