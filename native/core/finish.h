// What an average does to a sum at the end, and averages of integers that are not separable.
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

// Means of 64-bit integers, and of smaller ones in windows that overflow 64 bits: all terms of a window in row-major order.
template <class S>
void mean_wide(const AverageCall& call) {
    constexpr int64_t kRun = 256;
    const Layout& layout = call.layout;
    const Axis &depth = *layout.axes[0], &height = *layout.axes[1], &width = *layout.axes[2];
    Tiling tiling{{layout.outer, depth.output_size(), height.output_size(), width.output_size(), layout.inner}, {}};
    if (tiling.empty()) return;
    tiling.tile = tiling.extent;
    tiling.tile[4] = std::min(kRun, layout.inner);
    balance(tiling, call.workers, 8);
    const auto one = [&](int64_t outer, int64_t d, int64_t h, int64_t w, Range inner) {
        __int128 totals[kRun] = {};
        const Range depths = depth.window(d), heights = height.window(h), widths = width.window(w);
        for (int64_t z = depths.first; z < depths.last; ++z)
            for (int64_t y = heights.first; y < heights.last; ++y)
                for (int64_t x = widths.first; x < widths.last; ++x) {
                    const S* from = static_cast<const S*>(call.source) +
                                    (((outer * depth.input_size() + z) * height.input_size() + y) * width.input_size() + x) * layout.inner;
                    for (int64_t c = inner.first; c < inner.last; ++c) totals[c - inner.first] += from[c];
                }
        const Divisor divisor = Divisor().times(depth.divisor(d)).times(height.divisor(h)).times(width.divisor(w));
        const int64_t at = (((outer * depth.output_size() + d) * height.output_size() + h) * width.output_size() + w) * layout.inner;
        visit(call.destination_kind, [&](auto type) {
            using T = typename decltype(type)::type;
            if constexpr (!is_small_float<T>)
                for (int64_t c = inner.first; c < inner.last; ++c)
                    static_cast<T*>(call.destination)[at + c] = mean<T>(totals[c - inner.first], divisor);
        });
    };
    run_boxes(tiling, call.workers, tiling.elements() * 8, 0, [&](const Box& box, std::byte*) {
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
            for (int64_t d = box.depth.first; d < box.depth.last; ++d)
                for (int64_t h = box.height.first; h < box.height.last; ++h)
                    for (int64_t w = box.width.first; w < box.width.last; ++w) one(outer, d, h, w, box.inner);
    });
}

// to <- the totals truncated toward zero, saturating.
template <class S>
void truncate_row(const double* totals, int64_t count, S* to) {
    using Limits = std::numeric_limits<S>;
    if constexpr (sizeof(S) == 4)
        each_column<double>(count, [=](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            auto total = load<double, lanes>(totals + at);
            total = larger<double, lanes>(total, spread<double, lanes>(double(Limits::min())));
            total = -larger<double, lanes>(-total, spread<double, lanes>(-double(Limits::max())));
            store<double, lanes>(to + at, total);
        });
    else
        for (int64_t i = 0; i < count; ++i) to[i] = saturated<S>(totals[i]);
}

template <class S, class A>
class Fill;

// TensorFlow's integer gradient: double(g) / n added in double in row-major order of the outputs, truncated toward zero, saturating.
// Quotients are made once for a row of outputs, in pieces, and kept for the next row of inputs; rows of the same outputs are copied.
template <class S>
class TruncatedGradient : Sides {
    static constexpr int64_t kColumns = 4096;  // times inner elements, of quotients and of totals
    static constexpr int64_t kMostPicks = 16;  // terms of a sum

  public:
    explicit TruncatedGradient(const AverageCall& call)
        : Sides(call, true), run_(std::min<int64_t>(256, inner_)), most_(run_ ? kColumns / run_ : 1) {}

    void run() const {
        Tiling tiling{destinations(), {}};
        if (tiling.empty()) return;
        const bool turns = can_turn(call_.layout) && !width_.axis->rule();
        if (turns && run_turned(call_, true, [](const AverageCall& part) { TruncatedGradient(part).run(); })) return;
        if constexpr (sizeof(S) == 4)
            if (Fill<S, double> fill(call_); fill.usable()) return fill.run(2 * tiling.elements() * int64_t(sizeof(S)));
        tiling.tile = {1, tiling.extent[1], tiling.extent[2], std::min({most_, fitting_tile(width_, most_), tiling.extent[3]}), run_};
        balance(tiling, call_.workers, 2 * int64_t(sizeof(S)));
        Arena measure(nullptr);
        Rooms(*this, measure);
        run_boxes(tiling, call_.workers, tiling.elements() * 8, measure.used(), [&](const Box& box, std::byte* scratch) {
            Arena arena(scratch);
            Rooms rooms(*this, arena);
            compute(rooms, box);
        });
    }

  private:
    struct Rooms {
        Rooms(const TruncatedGradient& job, Arena& arena)
            : quotients(arena.take<double>(kColumns + Picks<double>::kSlack)), totals(arena.take<double>(kColumns + kLanes<double>)) {
            if (job.inner_ == 1) divisors = arena.take<double>(kColumns), picks = Picks<double>(arena, kColumns);
        }
        double *quotients, *totals, *divisors = nullptr;
        Picks<double> picks;
        Divisor divisors_of{0, 0};
        bool picking = false;
        std::tuple<int64_t, int64_t, int64_t, int64_t> made{-1, 0, 0, 0};
    };

    void compute(Rooms& rooms, const Box& box) const {
        const int64_t inner = box.inner.size(), size = box.width.size() * inner;
        const Range sources = width_.range(box.width);
        rooms.picking = inner_ == 1 && sources.size() <= most_ && width_.longest() <= kMostPicks;
        if (rooms.picking)
            rooms.picks.prepare(box.width.size(), 1, [&](int64_t i) { return width_.range(box.width.first + i).from(sources.first); });
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) {
            const S* last = nullptr;  // the last row of results, made of these
            Range last_depths{0, 0}, last_heights{0, 0};
            for (int64_t d = box.depth.first; d < box.depth.last; ++d)
                for (int64_t h = box.height.first; h < box.height.last; ++h) {
                    const Range depths = depth_.range(d), heights = height_.range(h);
                    S* to = static_cast<S*>(call_.destination) + destination_at(outer, d, h, box.width.first) + box.inner.first;
                    if (last && inner == inner_ && depths == last_depths && heights == last_heights) {
                        std::memcpy(to, last, std::size_t(size) * sizeof(S));
                        continue;
                    }
                    last = to, last_depths = depths, last_heights = heights;
                    std::fill_n(rooms.totals, size, 0.0);
                    for (int64_t z = depths.first; z < depths.last; ++z)
                        for (int64_t y = heights.first; y < heights.last; ++y)
                            for (Range part{sources.first, 0}; part.first < sources.last; part.first = part.last) {
                                part.last = std::min(part.first + most_, sources.last);
                                divide(rooms, box.inner, outer, z, y, part);
                                add(rooms, box, part);
                            }
                    if (inner == inner_) truncate_row(rooms.totals, size, to);
                    for (int64_t w = 0; inner != inner_ && w < box.width.size(); ++w) truncate_row(rooms.totals + w * inner, inner, to + w * inner_);
                }
        }
    }

    // The quotients of a part of a row of outputs.
    void divide(Rooms& rooms, Range inner, int64_t outer, int64_t z, int64_t y, Range part) const {
        if (rooms.made == std::tuple(outer, z, y, part.first)) return;
        rooms.made = {outer, z, y, part.first};
        const Divisor row = Divisor().times(depth_.axis->divisor(z)).times(height_.axis->divisor(y));
        const S* from = source_at<S>(outer, z, y, part.first) + inner.first;
        const auto by = [&](int64_t x) { return row.times(width_.axis->divisor(part.first + x)).template as<double>(); };
        if (rooms.picking) {  // a row is one part
            if (!(rooms.divisors_of == row))
                for (int64_t x = 0; x < part.size(); ++x) rooms.divisors[x] = by(x);
            rooms.divisors_of = row;
            each_column<double>(part.size(), [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
                constexpr int lanes = decltype(lanes_of)::value;
                store<double, lanes>(rooms.quotients + at, load<double, lanes>(from + at) / load<double, lanes>(rooms.divisors + at));
            });
            return;
        }
        for (int64_t x = 0; x < part.size(); ++x, from += inner_) {
            const double n = by(x);
            double* to = rooms.quotients + x * inner.size();
            each_column<double>(inner.size(), [=](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
                constexpr int lanes = decltype(lanes_of)::value;
                store<double, lanes>(to + at, load<double, lanes>(from + at) / spread<double, lanes>(n));
            });
        }
    }

    // Adds them to the totals of the inputs that they cover.
    void add(Rooms& rooms, const Box& box, Range part) const {
        constexpr int lanes = kLanes<double>;
        if (rooms.picking) {
            rooms.picks.visit([&](auto how) POOLGRAD_LAMBDA {
                for (int64_t at = 0; at < box.width.size(); at += lanes) {
                    const Picks<double>::Terms<decltype(how)::value> terms(rooms.picks, rooms.quotients, at);
                    auto total = load<double, lanes>(rooms.totals + at);
                    for (int32_t t = 0; t < rooms.picks.longest(); ++t) total = select<double, lanes>(terms.has(t), total + terms.term(t), total);
                    store<double, lanes>(rooms.totals + at, total);
                }
            });
            return;
        }
        const int64_t inner = box.inner.size(), whole = inner / lanes * lanes;
        for (int64_t w = box.width.first; w < box.width.last; ++w) {
            const Range cover = width_.range(w);
            double* total = rooms.totals + (w - box.width.first) * inner;
            for (int64_t x = std::max(cover.first, part.first); x < std::min(cover.last, part.last); ++x) {
                const double* quotients = rooms.quotients + (x - part.first) * inner;
                for (int64_t c = 0; c < whole; c += lanes) store<double, lanes>(total + c, load<double, lanes>(total + c) + load<double, lanes>(quotients + c));
                for (int64_t c = whole; c < inner; ++c) total[c] += quotients[c];
            }
        }
    }

    const int64_t run_, most_;  // inner elements and columns of a box, at most
};

}  // namespace poolgrad::POOLGRAD_ISA
