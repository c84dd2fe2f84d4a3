// What an average does to a sum at the end, and averages that are summed in one pass because they are not separable.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Product of divisors. Saturates: a quotient by 2^63 or more is 0 for any integer; floats then take the product in double.
struct Divisor {
    int64_t exact = 1;
    double wide = 1;
    Divisor times(int64_t factor) const {
        Divisor product{0, wide * double(factor)};
        if (__builtin_mul_overflow(exact, factor, &product.exact)) product.exact = INT64_MAX;
        return product;
    }
    template <class A>
    A as() const {
        return exact == INT64_MAX ? A(wide) : A(exact);
    }
    bool operator==(const Divisor& other) const { return exact == other.exact && wide == other.wide; }
};

template <class T, class Wide>
T saturated(Wide value) {
    using Limits = std::numeric_limits<T>;
    return value >= Wide(Limits::max()) ? Limits::max() : value <= Wide(Limits::min()) ? Limits::min() : T(value);
}

// The mean of integers from their exact sum: floats by the double quotient, integers rounded half to even, saturating (a divisor may
// be smaller than the window).
template <class T, class A>
T mean(A sum, Divisor divisor) {
    const double quotient = double(sum) / divisor.as<double>();
    if constexpr (std::is_floating_point_v<T>) {
        return T(quotient);
    } else {
        // Below 2^52 the double quotient is a tie only where the true one is.
        if (sizeof(A) <= 4 || (double(sum) < 0x1p52 && double(sum) > -0x1p52)) return saturated<T>(std::nearbyint(quotient));
        const A by = A(divisor.exact);
        A whole = sum / by, rest = sum % by;
        if (rest < 0) rest += by, --whole;
        if (rest > by - rest || (rest == by - rest && (whole & 1))) ++whole;
        return saturated<T>(whole);
    }
}

// Finishes `columns` runs of integer sums, one divisor each: wrapped sums (A unsigned) are divided truncating, exact ones to a mean.
template <class A>
void finish_integers(const A* sums, int64_t columns, int64_t run, Divisor base, const Axis& width, int64_t first, Kind kind,
                     std::byte* to, int64_t pitch) {
    visit(kind, [&](auto type) {
        using T = typename decltype(type)::type;
        if constexpr (!is_small_float<T>)
            for (int64_t w = 0; w < columns; ++w) {
                const Divisor divisor = base.times(width.divisor(first + w));
                T* result = reinterpret_cast<T*>(to) + w * pitch;
                for (int64_t i = 0; i < run; ++i) {
                    const A sum = sums[w * run + i];
                    if constexpr (!std::is_unsigned_v<A>)
                        result[i] = mean<T>(sum, divisor);
                    else if constexpr (std::is_signed_v<T> && sizeof(T) == sizeof(A))
                        result[i] = T(int64_t(T(sum)) / divisor.exact);
                }
            }
    });
}

// TensorFlow's integer gradient: double(g) / n added in double, truncated toward zero, saturating.
struct TruncatedGradient {
    using Total = double;
    static constexpr bool gradient = true;
    template <class S>
    static void add(double& total, S value, double n) { total += double(value) / n; }
    template <class S>
    static void finish(const double* totals, int64_t count, Divisor, Kind, std::byte* to) {
        for (int64_t i = 0; i < count; ++i) reinterpret_cast<S*>(to)[i] = saturated<S>(totals[i]);
    }
};

// Means of 64-bit integers, and of smaller ones in windows that overflow 64 bits.
struct WideMean {
    using Total = __int128;
    static constexpr bool gradient = false;
    template <class S>
    static void add(__int128& total, S value, double) { total += value; }
    template <class S>
    static void finish(const __int128* totals, int64_t count, Divisor divisor, Kind kind, std::byte* to) {
        visit(kind, [&](auto type) {
            using T = typename decltype(type)::type;
            if constexpr (!is_small_float<T>)
                for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = mean<T>(totals[i], divisor);
        });
    }
};

// Adds all terms of a destination in row-major order of the sources, as the policy says.
template <class S, class Policy>
void average_direct(const AverageCall& call) {
    constexpr bool gradient = Policy::gradient;
    constexpr int64_t kRun = 256;
    const Layout& layout = call.layout;
    const Side depth{layout.axes[0], gradient}, height{layout.axes[1], gradient}, width{layout.axes[2], gradient};
    const auto product = [](const Side& a, int64_t i, const Side& b, int64_t j, const Side& c, int64_t k) {
        return Divisor().times(a.axis->divisor(i)).times(b.axis->divisor(j)).times(c.axis->divisor(k));
    };
    Tiling tiling{{layout.outer, depth.destinations(), height.destinations(), width.destinations(), layout.inner}, {}};
    if (tiling.empty()) return;
    tiling.tile = tiling.extent;
    tiling.tile[4] = std::min(kRun, layout.inner);
    balance(tiling, call.workers, 8);
    const int64_t result_bytes = item_size(call.destination_kind);
    const auto one = [&](int64_t outer, int64_t d, int64_t h, int64_t w, Range inner) {
        typename Policy::Total totals[kRun] = {};
        const Range depths = depth.range(d), heights = height.range(h), widths = width.range(w);
        for (int64_t z = depths.first; z < depths.last; ++z)
            for (int64_t y = heights.first; y < heights.last; ++y)
                for (int64_t x = widths.first; x < widths.last; ++x) {
                    const S* from = static_cast<const S*>(call.source) +
                                    (((outer * depth.sources() + z) * height.sources() + y) * width.sources() + x) * layout.inner;
                    const double n = gradient ? product(depth, z, height, y, width, x).template as<double>() : 1;
                    for (int64_t c = inner.first; c < inner.last; ++c) Policy::add(totals[c - inner.first], from[c], n);
                }
        const int64_t at =
            (((outer * depth.destinations() + d) * height.destinations() + h) * width.destinations() + w) * layout.inner;
        Policy::template finish<S>(totals, inner.size(), gradient ? Divisor() : product(depth, d, height, h, width, w),
                                   call.destination_kind,
                                   static_cast<std::byte*>(call.destination) + (at + inner.first) * result_bytes);
    };
    run_boxes(tiling, call.workers, tiling.elements() * 8, 0, [&](const Box& box, std::byte*) {
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
            for (int64_t d = box.depth.first; d < box.depth.last; ++d)
                for (int64_t h = box.height.first; h < box.height.last; ++h)
                    for (int64_t w = box.width.first; w < box.width.last; ++w) one(outer, d, h, w, box.inner);
    });
}

}  // namespace poolgrad::POOLGRAD_ISA
