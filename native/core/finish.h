// What an average does to a sum at the end: divisors, and the means and quotients of integers.
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

// Whether dividing by it is multiplying by its reciprocal, to the last bit, which takes less time.
template <class A>
POOLGRAD_INLINE bool is_power_of_two(A divisor) {
    using Raw = typename BitsOf<sizeof(A)>::type;
    return (bit_copy<Raw>(divisor) & ((Raw(1) << (std::numeric_limits<A>::digits - 1)) - 1)) == 0;
}

// The divisors of a row of a box, those along width times one of the other axes. Neighbouring rows often have the same: these are kept.
template <class A>
struct RowDivisors {
    A *products = nullptr, *along_width = nullptr;
    Divisor made_for{0, 0};  // what the products are made for
    bool exact = false;      // those along width are

    // products <- the divisors for this one of the other axes, each `times`.
    POOLGRAD_INLINE void make(const Axis& width, Range box, Divisor divisor, int64_t times) {
        if (!(made_for == divisor)) make_others(width, box, divisor, times);
    }

  private:
    POOLGRAD_NOINLINE void make_others(const Axis& width, Range box, Divisor divisor, int64_t times) {
        // A product of numbers that are exact is rounded once, as the exact product is.
        constexpr int64_t kExact = 1 << 24;
        if (made_for.exact == 0) {
            exact = true;
            for (int64_t i = 0; i < box.size(); ++i) {
                const int64_t by = width.divisor(box.first + i);
                exact = exact && by <= kExact;
                std::fill_n(along_width + i * times, times, A(by));
            }
        }
        made_for = divisor;
        if (exact && divisor.exact <= kExact) {
            const A by = A(divisor.exact);
            each_column<A>(box.size() * times, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
                constexpr int lanes = decltype(lanes_of)::value;
                store<A, lanes>(products + at, load<A, lanes>(along_width + at) * by);
            });
            return;
        }
        for (int64_t i = 0; i < box.size(); ++i)
            std::fill_n(products + i * times, times, divisor.times(width.divisor(box.first + i)).template as<A>());
    }
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

// Sums below this, and of windows of fewer terms, are divided in float: exact themselves, as their divisors are, they have quotients that are
// ties only where the true ones are, as those lie at least 1 / (2 * divisor) from a tie. A quotient in double, rounded to float, is the same.
inline constexpr double kFloatSums = 0x1p22, kFloatDivisors = 0x1p24;
template <class T, class A>
bool sums_fit_float(const Layout& layout) {
    double terms = 1, divisor = 1;
    for (const Axis* axis : layout.axes) terms *= double(axis->longest_window()), divisor *= double(axis->largest_divisor());
    const bool sums = terms * (double(std::numeric_limits<T>::max()) + 1) < std::min(kFloatSums, double(std::numeric_limits<A>::max()));
    return sums && divisor <= kFloatDivisors;
}

// to <- the means of sums of 32 bits, each with its divisor: what mean() gives, several at a time.
template <class T, class D, int lanes>
POOLGRAD_INLINE void store_means(T* to, Vector<int32_t, lanes> sums, Vector<D, lanes> divisors) {
    const auto quotient = convert<D, int32_t, lanes>(sums) / divisors;
    if constexpr (std::is_floating_point_v<T>) {
        store<D, lanes>(to, quotient);
    } else {
        // Adding 1.5 * 2^52 (in float 2^23) rounds half to even, as its last bit is the unit.
        constexpr D large = sizeof(D) == 8 ? D(0x1.8p52) : D(0x1.8p23);
        auto rounded = (quotient + large) - large;
        rounded = larger<D, lanes>(rounded, spread<D, lanes>(std::numeric_limits<T>::min()));
        rounded = -larger<D, lanes>(-rounded, spread<D, lanes>(-D(std::numeric_limits<T>::max())));
        store<int32_t, lanes>(to, convert<int32_t, D, lanes>(rounded));
    }
}
template <class T, class D>
void mean_row(const int32_t* sums, const D* divisors, int64_t count, T* to) {
    each_column<D>(count, [=](auto lanes, int64_t at) POOLGRAD_LAMBDA {
        store_means<T, D, lanes()>(to + at, load<int32_t, lanes()>(sums + at), load<D, lanes()>(divisors + at));
    });
}

// to <- quotients truncated toward zero: exact in double, as they have 31 bits. Powers of two are shifts.
POOLGRAD_NOINLINE inline void divide_row(const int32_t* from, const double* divisors, int64_t count, int32_t* to) {
    each_column<double>(count, [=](auto lanes, int64_t at) POOLGRAD_LAMBDA {
        store<double, lanes()>(to + at, load<double, lanes()>(from + at) / load<double, lanes()>(divisors + at));
    });
}
POOLGRAD_NOINLINE inline void divide_run(const int32_t* from, double divisor, int64_t count, int32_t* to) {
    const auto bits = uint32_t(std::min(divisor, 0x1p31));
    if (divisor <= 0x1p30 && (bits & (bits - 1)) == 0) {
        const int shift = __builtin_ctz(bits);
        const auto below = int32_t(bits - 1);
        return each_column<int32_t>(count, [=](auto lanes, int64_t at) POOLGRAD_LAMBDA {
            const auto value = load<int32_t, lanes()>(from + at);
            store<int32_t, lanes()>(to + at, (value + ((value >> 31) & below)) >> shift);
        });
    }
    each_column<double>(count, [=](auto lanes, int64_t at) POOLGRAD_LAMBDA {
        store<double, lanes()>(to + at, load<double, lanes()>(from + at) / spread<double, lanes()>(divisor));
    });
}

// Calls body(index of the first sum, how many, their divisors in D) for all sums of `columns` runs, which lie `run` apart in a row.
template <class D, class Body>
void with_divisors(int64_t columns, int64_t run, Divisor base, const Axis& width, int64_t first, const Body& body) {
    constexpr int64_t kPart = 128;
    D divisors[kPart];
    int64_t filled = 0;  // all with that of whole windows
    for (int64_t at = 0; at < columns * run; at += kPart) {
        const int64_t count = std::min(kPart, columns * run - at);
        int64_t column = first + at / run, left = run - at % run;
        // Whole windows at both ends: so are those between.
        const int64_t last = first + (at + count - 1) / run;
        const bool whole = width.rule() && width.divisor(column) == width.rule()->window && width.divisor(last) == width.rule()->window;
        if (whole && filled < count) fill_row(divisors, count, base.times(width.divisor(last)).template as<D>());
        filled = whole ? std::max(filled, count) : 0;
        for (int64_t k = 0; k < count && !whole; ++k) {
            divisors[k] = base.times(width.divisor(column)).template as<D>();
            if (--left == 0) left = run, ++column;
        }
        body(at, count, static_cast<const D*>(divisors));
    }
}

// Finishes `columns` runs of integer sums, one divisor each: wrapped sums (A unsigned) are divided truncating, exact ones to a mean, in
// float where these are small.
template <class A>
void finish_integers(const A* sums, int64_t columns, int64_t run, bool small, Divisor base, const Axis& width, int64_t first, Kind kind,
                     std::byte* to, int64_t pitch) {
    visit(kind, [&](auto type) {
        using T = typename decltype(type)::type;
        T* results = reinterpret_cast<T*>(to);
        if constexpr (std::is_same_v<A, int32_t> && !is_small_float<T> && (std::is_floating_point_v<T> || sizeof(T) <= 2)) {
            const int64_t pieces = run == pitch ? 1 : columns, length = columns / pieces;
            const auto means = [&](auto type_of, int64_t i) {
                with_divisors<decltype(type_of)>(length, run, base, width, first + i, [&](int64_t at, int64_t count, const auto* divisors) {
                    mean_row(sums + i * run + at, divisors, count, results + i * pitch + at);
                });
            };
            for (int64_t i = 0; i < pieces; ++i)
                if (small && sizeof(T) <= 4)
                    means(float(), i);
                else
                    means(double(), i);
        } else if constexpr (std::is_same_v<A, uint32_t> && std::is_same_v<T, int32_t>) {
            const auto* wrapped = reinterpret_cast<const int32_t*>(sums);
            if (run == 1 && pitch == 1)
                return with_divisors<double>(columns, 1, base, width, first, [&](int64_t at, int64_t count, const double* divisors) {
                    divide_row(wrapped + at, divisors, count, results + at);
                });
            for (int64_t w = 0; w < columns; ++w)
                divide_run(wrapped + w * run, base.times(width.divisor(first + w)).template as<double>(), run, results + w * pitch);
        } else if constexpr (!is_small_float<T>)
            for (int64_t w = 0; w < columns; ++w) {
                const Divisor divisor = base.times(width.divisor(first + w));
                for (int64_t i = 0; i < run; ++i) {
                    const A sum = sums[w * run + i];
                    if constexpr (!std::is_unsigned_v<A>)
                        results[w * pitch + i] = mean<T>(sum, divisor);
                    else if constexpr (std::is_signed_v<T> && sizeof(T) == sizeof(A))
                        results[w * pitch + i] = T(int64_t(T(sum)) / divisor.exact);
                }
            }
    });
}

}  // namespace poolgrad::POOLGRAD_ISA
