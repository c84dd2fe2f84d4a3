// The kernels of one family for one instruction set: compiled once for each pair, with POOLGRAD_ISA (baseline, avx2) and
// POOLGRAD_FAMILY_AVERAGE or POOLGRAD_FAMILY_MAX set by the build. Everything from outside is included before the target is set, so
// that no shared inline function is compiled for a CPU that may not be there.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "memory.h"
#include "pool.h"
#include "workers.h"

#if defined(POOLGRAD_AVX2) && defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#elif defined(POOLGRAD_AVX2)
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#include "simd.h"
#include "load_store.h"
#include "drive.h"
#include "lanes.h"
#include "strided.h"
#include "picks.h"
#include "slide.h"
#include "turned.h"
#include "parts.h"
#if defined(POOLGRAD_FAMILY_AVERAGE)
#include "rows.h"
#include "sides.h"
#include "finish.h"
#include "groups.h"
#include "fill.h"
#include "places.h"
#include "fill_picked.h"
#include "covers.h"
#include "integers.h"
#include "global.h"
#include "narrow.h"
#include "small.h"
#include "picked.h"
#include "avg_parts.h"
#include "avg_plan.h"
#include "avg_runs.h"
#include "avg_down.h"
#include "avg_line.h"
#include "avg_three.h"
#include "avg_direct.h"
#include "avg.h"
#include "copy.h"
#else
#include "max.h"
#include "max_winners.h"
#include "max_shared.h"
#include "max_slide.h"
#include "max_down.h"
#include "max_lines.h"
#include "max_way.h"
#include "max_direct.h"
#include "max_along_width.h"
#include "max_passes.h"
#include "max_best.h"
#include "max_forward.h"
#include "winner_rows.h"
#include "max_apart.h"
#include "max_gather.h"
#include "max_scatter.h"
#include "max_planes.h"
#include "max_gradient.h"
#include "indices.h"
#endif

namespace poolgrad::POOLGRAD_ISA {

template <class T>
using TypeOf = typename T::type;

#if defined(POOLGRAD_FAMILY_AVERAGE)

[[noreturn]] static void no_kernel(const char* op, Kind kind) {
    throw std::invalid_argument(std::string(op) + ": no kernel for kind " + std::to_string(int(kind)));
}

void avg_pool(const AverageCall& call) {
    visit(call.kind, [&](auto type) {
        using S = TypeOf<decltype(type)>;
        if constexpr (is_float<S> || std::is_same_v<S, int32_t> || std::is_same_v<S, int64_t>)
            Average<S, Accumulator<S>, false>(call).run();
        else
            no_kernel("avg_pool", call.kind);
    });
}

void avg_pool_grad(const AverageCall& call) {
    visit(call.kind, [&](auto type) {
        using S = TypeOf<decltype(type)>;
        if constexpr (is_float<S>)
            Average<S, Accumulator<S>, true>(call).run();
        else if constexpr (std::is_same_v<S, int32_t> || std::is_same_v<S, int64_t>)
            TruncatedGradient<S>(call).run();
        else
            no_kernel("avg_pool_grad", call.kind);
    });
}

void mean_pool(const AverageCall& call) {
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
                Average<S, A, false>(call).run();
            else
                mean_wide<S>(call);
        } else if constexpr (std::is_integral_v<S>) {
            mean_wide<S>(call);
        } else {
            no_kernel("mean_pool", call.kind);
        }
    });
}

#else

// Whether maxima stay in registers (max_slide.h) as long as rows are; small integers need longer ones.
static bool slides(const MaxCall& call, const Rule& width) {
    const int64_t lanes = kVectorBytes / std::max<int64_t>(4, item_size(call.kind));
    return is_small_window(width.stride, width.window) && 2 * width.output_size >= lanes &&
           call.layout.axes[0]->longest_window() * call.layout.axes[1]->longest_window() <= kSlideRows;
}
// Whether planes are faster turned: irregular rows are, but for maxima alone of longer ones; and short rows, whose windows cost more in
// bookkeeping than in comparisons, the longer the fewer arrays are turned and the smaller planes are. Saved winners are scattered.
static bool turns(const MaxCall& call) {
    if (!can_turn(call.layout)) return false;
    const Axis& width = *call.layout.axes[2];
    const Rule* rule = width.rule();
    if (!rule) return call.winners || call.grad || width.input_size() < 64;
    if (!call.source) return false;
    if (rule->stride == 1 && rule->window > 4 && width.output_size() < 32) return true;
    if (slides(call, *rule)) return width.input_size() < 8;
    const bool volumes = call.layout.axes[0]->input_size() > 1;
    return width.input_size() < (call.grad ? (volumes ? 12 : 24) : (volumes ? 24 : 40));
}

// Calls function(S) for the kind: unsigned integers as signed ones of their size.
template <class Function>
static int64_t with_signed(Kind kind, const Function& function) {
    return visit(kind, [&](auto type) -> int64_t {
        using S = TypeOf<decltype(type)>;
        if constexpr (std::is_unsigned_v<S>)
            return with_signed(Kind(int(kind) - 1), function);
        else
            return function(type);
    });
}
// Whether integers of 8 and 16 bits are compared in lanes of their own size: rows must fill registers of these, and their codes must fit,
// also those of windows along width that are counted from before the row's start.
template <class S>
static bool stays_small(const MaxCall& call) {
    const Axis& width = *call.layout.axes[2];
    const Rule* rule = width.rule();
    const int64_t inner = call.layout.inner;
    const bool fills = inner >= kLanes<S> || (inner < 16 && rule && double(inner) * double(width.input_size()) >= kLanes<S>);
    if (!call.winners && !call.grad) return fills;
    double last_code = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        const Axis& axis = *call.layout.axes[i];
        const int64_t window = i == 2 && rule ? std::min(rule->window, rule->input_size) : axis.reach();
        last_code += double(call.layout.code_step[i]) * double(window - 1);
    }
    return fills && call.winner_bytes <= int(sizeof(S)) && last_code <= double(std::numeric_limits<std::make_unsigned_t<S>>::max());
}
// Calls function(S, V, C); codes beyond 32 bits need 64-bit lanes.
template <class Function>
static int64_t with_types(const MaxCall& call, const Function& function) {
    return with_signed(call.kind, [&](auto type) -> int64_t {
        using S = TypeOf<decltype(type)>;
        if constexpr (std::is_integral_v<S> && sizeof(S) < 4)
            if (stays_small<S>(call)) return function(type, type, Type<std::make_unsigned_t<S>>());
        using Small = Compute<S, false>;
        using Wide = Compute<S, true>;
        if (call.winner_bytes <= 4) return function(type, Type<typename Small::V>(), Type<typename Small::C>());
        return function(type, Type<typename Wide::V>(), Type<typename Wide::C>());
    });
}

static void max_pool_straight(const MaxCall& call) {
    with_types(call, [&](auto s, auto v, auto c) -> int64_t {
        max_forward<TypeOf<decltype(s)>, TypeOf<decltype(v)>, TypeOf<decltype(c)>>(call);
        return -1;
    });
}
static int64_t max_pool_grad_straight(const MaxCall& call) {
    return with_types(call, [&](auto s, auto v, auto c) {
        return MaxGradient<TypeOf<decltype(s)>, TypeOf<decltype(v)>, TypeOf<decltype(c)>>(call).run();
    });
}

void max_pool(const MaxCall& call) {
    if (!turns(call)) return max_pool_straight(call);
    const int64_t bytes = item_size(call.kind);
    const std::array<Turned, 3> arrays{{{call.source, bytes, false, false},
                                        {call.values, bytes, true, true},
                                        {call.winners, call.winner_bytes, true, true}}};
    const Turning turning(call.layout, call.workers, false, arrays);
    if (!turning.planes()) return max_pool_straight(call);
    turning.run([&](const Layout& layout, const auto& places) -> int64_t {
        MaxCall part = call;
        part.layout = layout, part.workers = 1;
        part.source = places[0], part.values = places[1], part.winners = places[2];
        return max_pool_straight(part), -1;
    });
}
int64_t max_pool_grad(const MaxCall& call) {
    if (!turns(call)) return max_pool_grad_straight(call);
    const int64_t bytes = item_size(call.kind);
    const std::array<Turned, 5> arrays{{{call.source, bytes, false, false},
                                        {call.expected, bytes, true, false},
                                        {call.grad, bytes, true, false},
                                        {call.winners, call.winner_bytes, true, false},
                                        {call.destination, bytes, false, true}}};
    const Turning turning(call.layout, call.workers, true, arrays);
    if (!turning.planes()) return max_pool_grad_straight(call);
    const int64_t bad = turning.run([&](const Layout& layout, const auto& places) {
        MaxCall part = call;
        part.layout = layout, part.workers = 1;
        part.source = places[0], part.expected = places[1], part.grad = places[2], part.winners = places[3], part.destination = places[4];
        return max_pool_grad_straight(part);
    });
    return bad < 0 ? bad : max_pool_grad_straight(call);  // which says where the first one is
}
int64_t take_winners(const MaxCall& call) {
    return with_signed(call.kind, [&](auto type) { return take_by_winners<TypeOf<decltype(type)>>(call); });
}

int64_t scatter_indices(const IndexCall& call) {
    return with_signed(call.kind, [&](auto type) { return scatter<TypeOf<decltype(type)>>(call); });
}
int64_t gather_indices(const IndexCall& call) {
    return with_signed(call.kind, [&](auto type) { return gather<TypeOf<decltype(type)>>(call); });
}

#endif

}  // namespace poolgrad::POOLGRAD_ISA

#if defined(POOLGRAD_AVX2) && defined(__clang__)
#pragma clang attribute pop
#elif defined(POOLGRAD_AVX2)
#pragma GCC pop_options
#endif
