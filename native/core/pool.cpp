#include "pool.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace poolgrad {

namespace {

const Kernels& choose() {
    const char* wanted = std::getenv("POOLGRAD_ISA");
    const std::string name = wanted ? wanted : "";
#if defined(__x86_64__)
    __builtin_cpu_init();
    unsigned a = 0, b = 0, c = 0, d = 0;  // clang's __builtin_cpu_supports does not know F16C
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
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
