// All kernels of one instruction set. Included by kernels_*.cpp, which set POOLGRAD_ISA and the compiler's target; everything from
// outside is included before the target is set, so that no shared inline function is compiled for a CPU that may not be there.
#include "simd.h"
#include "drive.h"
#include "avg.h"
#include "max.h"
#include "indices.h"
#include "copy.h"

namespace poolgrad::POOLGRAD_ISA {

template <class T>
using TypeOf = typename T::type;

[[noreturn]] inline void no_kernel(const char* op, Kind kind) {
    throw std::invalid_argument(std::string(op) + ": no kernel for kind " + std::to_string(int(kind)));
}

inline void avg_pool(const AverageCall& call) {
    visit(call.kind, [&](auto type) {
        using S = TypeOf<decltype(type)>;
        if constexpr (is_float<S> || std::is_same_v<S, int32_t> || std::is_same_v<S, int64_t>)
            Average<S, Accumulator<S>, S, false>(call).run();
        else
            no_kernel("avg_pool", call.kind);
    });
}

inline void avg_pool_grad(const AverageCall& call) {
    visit(call.kind, [&](auto type) {
        using S = TypeOf<decltype(type)>;
        if constexpr (is_float<S>)
            Average<S, Accumulator<S>, S, true>(call).run();
        else if constexpr (std::is_same_v<S, int32_t> || std::is_same_v<S, int64_t>)
            average_direct<S, TruncatedGradient>(call);
        else
            no_kernel("avg_pool_grad", call.kind);
    });
}

inline void mean_pool(const AverageCall& call) {
    const Kind to = call.destination_kind;
    if (to != call.kind && to != Kind::float32 && to != Kind::float64) no_kernel("mean_pool: destination", to);
    visit(call.kind, [&](auto type) {
        using S = TypeOf<decltype(type)>;
        if constexpr (std::is_integral_v<S> && sizeof(S) <= 4) {
            // Sums of 8 and 16 bits stay exact in 32 as long as the window is not huge; everything is exact in 128.
            using A = std::conditional_t<sizeof(S) == 4, int64_t, int32_t>;
            double terms = 1;
            for (const Axis* axis : call.layout.axes) terms *= double(axis->longest_window());
            if (terms * double(std::numeric_limits<S>::max()) + terms < double(std::numeric_limits<A>::max()))
                Average<S, A, S, false, true>(call).run();
            else
                average_direct<S, WideMean>(call);
        } else if constexpr (std::is_integral_v<S>) {
            average_direct<S, WideMean>(call);
        } else {
            no_kernel("mean_pool", call.kind);
        }
    });
}

// Calls function(Max) for the kind; codes beyond 32 bits need 64-bit lanes.
template <class Function>
int64_t with_max(const MaxCall& call, const Function& function) {
    return visit(call.kind, [&](auto type) -> int64_t {
        using S = TypeOf<decltype(type)>;
        using Small = Compute<S, false>;
        using Wide = Compute<S, true>;
        if (call.winner_bytes <= 4) return function(Max<S, typename Small::V, typename Small::C>(call));
        return function(Max<S, typename Wide::V, typename Wide::C>(call));
    });
}

inline void max_pool(const MaxCall& call) {
    with_max(call, [](auto job) { return job.forward(), -1; });
}
inline int64_t max_pool_grad(const MaxCall& call) {
    return with_max(call, [](auto job) { return job.gradient(false); });
}
inline int64_t max_pool_grad_from_input(const MaxCall& call) {
    return with_max(call, [](auto job) { return job.gradient(true); });
}
inline int64_t take_winners(const MaxCall& call) {
    return with_max(call, [](auto job) { return job.take(); });
}

inline int64_t scatter_indices_of(const IndexCall& call) {
    return visit(call.kind, [&](auto type) { return scatter_indices<TypeOf<decltype(type)>>(call); });
}
inline int64_t gather_indices_of(const IndexCall& call) {
    return visit(call.kind, [&](auto type) { return gather_indices<TypeOf<decltype(type)>>(call); });
}

extern const Kernels kernels{POOLGRAD_ISA_NAME,        avg_pool,     mean_pool,          avg_pool_grad,     max_pool,  max_pool_grad,
                             max_pool_grad_from_input, take_winners, scatter_indices_of, gather_indices_of, limit_copy};

}  // namespace poolgrad::POOLGRAD_ISA
