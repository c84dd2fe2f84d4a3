// Row arithmetic shared by the averages: sums of rows, strided rows, and the way of results to memory.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Terms summed in one chain; longer sums are sums of such blocks.
inline constexpr int64_t kBlock = 256;

// Sinks take sums: put<lanes>(index, vector of sums). `again` tells that putting an element twice does no harm.
template <class A, class T>
struct StoreSink {
    T* to;
    static constexpr bool again = true;
    template <int lanes>
    POOLGRAD_INLINE void put(int64_t at, Vector<A, lanes> sum) const {
        store<A, lanes>(to + at, sum);
    }
};
// A further block: its sum is added to the sum of those before.
template <class A>
struct AddSink {
    A* to;
    static constexpr bool again = false;
    template <int lanes>
    POOLGRAD_INLINE void put(int64_t at, Vector<A, lanes> sum) const {
        store<A, lanes>(to + at, load<A, lanes>(to + at) + sum);
    }
};
template <class A>
struct ScaleSink {
    A* to;
    const A* factors;
    static constexpr bool again = true;
    template <int lanes>
    POOLGRAD_INLINE void put(int64_t at, Vector<A, lanes> sum) const {
        store<A, lanes>(to + at, sum * load<A, lanes>(factors + at));
    }
};
template <class A, class T>
struct DivideSink {
    T* to;
    A divisor;
    static constexpr bool again = true;
    template <int lanes>
    POOLGRAD_INLINE void put(int64_t at, Vector<A, lanes> sum) const {
        store<A, lanes>(to + at, sum / spread<A, lanes>(divisor));
    }
};
template <class A, class T>
struct DivideRowSink {
    T* to;
    const A* divisors;
    static constexpr bool again = true;
    template <int lanes>
    POOLGRAD_INLINE void put(int64_t at, Vector<A, lanes> sum) const {
        store<A, lanes>(to + at, sum / load<A, lanes>(divisors + at));
    }
};

// Sums that are made together.
inline constexpr int kTogether = 4;

// The rows [first, first + count) that make one sum.
struct Span {
    int32_t first, count;
    int32_t last() const { return first + count; }
};

// `sums` neighbouring sums of rows that share most of their terms, so that a row is loaded once for all of them: with 15 terms each,
// four sums take 18 loads in place of 60. Every sum is a chain of its own in ascending order; it starts from -0.0, to which adding
// the first term is the same as assigning it.
// `stepped`: spans of one length >= 3, each a row further than the one before: only the rows that all share are counted at run time.
template <int sums, int unroll, int lanes, bool weighted, bool stepped = false, class A, class Rows, class Sink>
POOLGRAD_INLINE void sum_columns(const Rows& rows, const A* weights, const Span* spans, int64_t at, const Sink* sinks) {
    Vector<A, lanes> sum[sums][unroll];
    for (int j = 0; j < sums; ++j)
        for (int u = 0; u < unroll; ++u) sum[j][u] = spread<A, lanes>(A(-0.0));
    // Rows [begin, end) belong to the sums low .. high.
    const auto add = [&](auto low, auto high, int32_t begin, int32_t end) POOLGRAD_LAMBDA {
        for (int32_t i = begin; i < end; ++i) {
            const auto* row = rows(i) + at;
            if constexpr (Rows::far) fetch_next_page(row, unroll * lanes);
            for (int u = 0; u < unroll; ++u) {
                auto term = load<A, lanes>(row + u * lanes);
                if constexpr (weighted) term = term * weights[i];
                for (int j = decltype(low)::value; j <= decltype(high)::value; ++j) sum[j][u] = sum[j][u] + term;
            }
        }
    };
    if constexpr (stepped) {
        const int32_t first = spans[0].first, last = spans[0].last();
        // Row i belongs to the sums low .. high; of these the last begins with it, if `begins`.
        const auto add_row = [&](auto low, auto high, auto begins, int32_t i) POOLGRAD_LAMBDA {
            const auto* row = rows(i) + at;
            if constexpr (Rows::far) fetch_next_page(row, unroll * lanes);
            for (int u = 0; u < unroll; ++u) {
                auto term = load<A, lanes>(row + u * lanes);
                if constexpr (weighted) term = term * weights[i];
                for (int j = low(); j <= high(); ++j) sum[j][u] = begins() && j == high() ? term : sum[j][u] + term;
            }
        };
        add_row(Constant<0>(), Constant<0>(), Constant<1>(), first);
        add_row(Constant<0>(), Constant<1>(), Constant<1>(), first + 1);
        add_row(Constant<0>(), Constant<2>(), Constant<1>(), first + 2);
        if (last == first + 3) {
            add_row(Constant<1>(), Constant<3>(), Constant<1>(), last);
        } else {
            add_row(Constant<0>(), Constant<3>(), Constant<1>(), first + 3);
            for (int32_t i = first + 4; i < last; ++i) add_row(Constant<0>(), Constant<3>(), Constant<0>(), i);
            add_row(Constant<1>(), Constant<3>(), Constant<0>(), last);
        }
        add_row(Constant<2>(), Constant<3>(), Constant<0>(), last + 1);
        add_row(Constant<3>(), Constant<3>(), Constant<0>(), last + 2);
    } else if constexpr (sums == 1) {
        add(Constant<0>(), Constant<0>(), spans[0].first, spans[0].last());
    } else {
        static_assert(sums == 4);
        add(Constant<0>(), Constant<0>(), spans[0].first, spans[1].first);
        add(Constant<0>(), Constant<1>(), spans[1].first, spans[2].first);
        add(Constant<0>(), Constant<2>(), spans[2].first, spans[3].first);
        add(Constant<0>(), Constant<3>(), spans[3].first, spans[0].last());
        add(Constant<1>(), Constant<3>(), spans[0].last(), spans[1].last());
        add(Constant<2>(), Constant<3>(), spans[1].last(), spans[2].last());
        add(Constant<3>(), Constant<3>(), spans[2].last(), spans[3].last());
    }
    for (int j = 0; j < sums; ++j)
        for (int u = 0; u < unroll; ++u) sinks[j].template put<lanes>(at + u * lanes, sum[j][u]);
}

// sink <- the sum of the span's 1 to kBlock rows, element by element.
template <bool weighted, class A, class Rows, class Sink>
POOLGRAD_INLINE void sum_span(const Rows& rows, const A* weights, Span span, int64_t length, const Sink& sink) {
    constexpr int lanes = kLanes<A>;
    int64_t at = 0;
    for (; at + 4 * lanes <= length; at += 4 * lanes) sum_columns<1, 4, lanes, weighted>(rows, weights, &span, at, &sink);
    for (; at + lanes <= length; at += lanes) sum_columns<1, 1, lanes, weighted>(rows, weights, &span, at, &sink);
    if (at == length) return;
    if (Sink::again && length >= lanes)  // the last register overlaps the one before
        return sum_columns<1, 1, lanes, weighted>(rows, weights, &span, length - lanes, &sink);
    for (; at < length; ++at) sum_columns<1, 1, 1, weighted>(rows, weights, &span, at, &sink);
}
// to <- the sum of many rows, some at a time as they lie in memory: of so many by turns the CPU foresees none.
template <class A, class Rows>
POOLGRAD_NOINLINE void sum_in_turn(const Rows& rows, int64_t count, int64_t length, A* to) {
    const auto add = [&](auto some, int64_t first) POOLGRAD_LAMBDA {
        std::decay_t<decltype(rows(0))> from[some()];
        for (int i = 0; i < some(); ++i) from[i] = rows(first + i);
        const auto columns = [&](auto lanes, int64_t at) POOLGRAD_LAMBDA {
            auto sum = load<A, lanes()>(from[0] + at);
            if (first) sum = load<A, lanes()>(to + at) + sum;
            for (int i = 1; i < some(); ++i) sum = sum + load<A, lanes()>(from[i] + at);
            store<A, lanes()>(to + at, sum);
        };
        int64_t at = 0;
        for (; at + kLanes<A> <= length; at += kLanes<A>) columns(Constant<kLanes<A>>(), at);
        for (; at < length; ++at) columns(Constant<1>(), at);
    };
    int64_t first = 0;
    for (; first + 4 <= count; first += 4) add(Constant<4>(), first);
    for (; first < count; ++first) add(Constant<1>(), first);
}
template <bool weighted, class A, class Rows, class Sink>
POOLGRAD_INLINE void sum_rows(const Rows& rows, const A* weights, int64_t count, int64_t length, const Sink& sink) {
    sum_span<weighted>(rows, weights, Span{0, int32_t(count)}, length, sink);
}

// The same of one or two rows, with weights, at least a register long. Which it is changes from span to span where an axis is irregular, and
// asking would take longer than a term of -0.0.
template <class A, class Rows, class Sink>
POOLGRAD_INLINE void sum_pair(const Rows& rows, const A* weights, Span span, int64_t length, const Sink& sink) {
    constexpr int lanes = kLanes<A>;
    const auto *one = rows(span.first), *other = rows(span.last() - 1);
    const A weight = weights[span.first], other_weight = weights[span.last() - 1];
    const auto both = spread<A, lanes>(A(span.count)) > spread<A, lanes>(A(1));
    const auto put = [&](int64_t at) POOLGRAD_LAMBDA {
        const auto term = load<A, lanes>(other + at) * other_weight;
        sink.template put<lanes>(at, load<A, lanes>(one + at) * weight + select<A, lanes>(both, term, spread<A, lanes>(A(-0.0))));
    };
    int64_t at = 0;
    for (; at + 4 * lanes <= length; at += 4 * lanes) {
        if constexpr (Rows::far) fetch_next_page(one + at, 4 * lanes), fetch_next_page(other + at, 4 * lanes);
        for (int u = 0; u < 4; ++u) put(at + u * lanes);
    }
    for (; at < length; at += lanes) put(std::min(at, length - lanes));
}

// The same for 1 to kTogether spans, neither end decreasing.
template <bool weighted, class A, class Rows, class Sink>
POOLGRAD_INLINE void sum_spans(const Rows& rows, const A* weights, const Span* spans, int count, int64_t length, const Sink* sinks) {
    constexpr int lanes = kLanes<A>;
    static_assert(Sink::again);
    if constexpr (weighted) {
        bool pairs = length >= lanes;
        for (int j = 0; j < count; ++j) pairs = pairs && spans[j].count <= 2;
        for (int j = 0; pairs && j < count; ++j) sum_pair(rows, weights, spans[j], length, sinks[j]);
        if (pairs) return;
    }
    if (count < kTogether || spans[kTogether - 1].first > spans[0].last() || length < lanes) {
        for (int j = 0; j < count; ++j) sum_span<weighted>(rows, weights, spans[j], length, sinks[j]);
        return;
    }
    int64_t at = 0;
    if constexpr (std::is_floating_point_v<A>) {
        bool stepped = spans[0].count >= 3;
        for (int j = 1; j < kTogether; ++j) stepped = stepped && spans[j].first == spans[0].first + j && spans[j].count == spans[0].count;
        for (; stepped && at + 2 * lanes <= length; at += 2 * lanes)
            sum_columns<kTogether, 2, lanes, weighted, true>(rows, weights, spans, at, sinks);
    }
    for (; at + 2 * lanes <= length; at += 2 * lanes)
        sum_columns<kTogether, 2, lanes, weighted>(rows, weights, spans, at, sinks);
    for (; at < length; at += lanes)
        sum_columns<kTogether, 1, lanes, weighted>(rows, weights, spans, std::min(at, length - lanes), sinks);
}

// The same of rows `pitch` elements apart that begin in one another. Counted by eights and what is left by halves: loops of a few rounds
// that end at run time cost more than their sums.
template <class A, class Sink>
POOLGRAD_NOINLINE void sum_line(const A* row, int64_t pitch, int64_t count, int64_t length, const Sink& sink) {
    constexpr int lanes = kLanes<A>, registers = 4;
    if (length < registers * lanes) return sum_rows<false>(PitchRows<A>{row, pitch}, row, count, length, sink);
    for (int64_t next = 0; next < length; next += registers * lanes) {
        const int64_t at = std::min(next, length - registers * lanes);
        const A* from = row + at;
        Vector<A, lanes> sum[registers];
        for (int u = 0; u < registers; ++u) sum[u] = load<A, lanes>(from + u * lanes);
        const auto add = [&](auto rows) POOLGRAD_LAMBDA {
            for (int t = 0; t < rows(); ++t) {
                from += pitch;
                for (int u = 0; u < registers; ++u) sum[u] = sum[u] + load<A, lanes>(from + u * lanes);
            }
        };
        const int64_t more = count - 1;
        for (int64_t t = 8; t <= more; t += 8) add(Constant<8>());
        if (more & 4) add(Constant<4>());
        if (more & 2) add(Constant<2>());
        if (more & 1) add(Constant<1>());
        for (int u = 0; u < registers; ++u) sink.template put<lanes>(at + u * lanes, sum[u]);
    }
}

template <class Step, std::size_t... i>
POOLGRAD_INLINE void each_shift(int64_t count, const Step& step, std::index_sequence<i...>) {
    (void)((int64_t(i) < count && (step(Constant<int(i) + 1>()), true)) && ...);
}
// The same with pitch 1. Of the registers that begin between two, every other is shuffled from these and the others are loaded: neither
// the loads, many of which take two lines, nor the shuffles then hold up the sums. May read kLanes elements beyond the last.
template <class A, class Sink>
POOLGRAD_NOINLINE void sum_neighbours(const A* row, int64_t count, int64_t length, const Sink& sink) {
    constexpr int lanes = kLanes<A>;
    if (length < 2 * lanes) return sum_rows<false>(PitchRows<A>{row, 1}, row, count, length, sink);
    for (int64_t next = 0; next < length; next += 2 * lanes) {
        const int64_t at = std::min(next, length - 2 * lanes);
        const A* from = row + at;
        auto a = load<A, lanes>(from), b = load<A, lanes>(from + lanes), first = a, second = b;
        for (int64_t left = count - 1; left > 0; left -= lanes, from += lanes) {
            const auto c = load<A, lanes>(from + 2 * lanes);
            const auto add = [&](auto shift) POOLGRAD_LAMBDA {
                if constexpr (shift() == lanes)
                    first = first + b, second = second + c;
                else if constexpr (shift() % 2)
                    first = first + load<A, lanes>(from + shift()), second = second + load<A, lanes>(from + lanes + shift());
                else
                    first = first + every_of<shift(), 1>(a, b), second = second + every_of<shift(), 1>(b, c);
            };
            constexpr std::make_index_sequence<std::size_t(lanes)> all;
            if (left >= lanes)
                each_shift(lanes, add, all);
            else
                each_shift(left, add, all);
            a = b, b = c;
        }
        sink.template put<lanes>(at, first), sink.template put<lanes>(at + lanes, second);
    }
}

// row *= factors
template <class A>
inline void scale_row(A* row, const A* factors, int64_t length) {
    constexpr int lanes = kLanes<A>;
    int64_t at = 0;
    for (; at + lanes <= length; at += lanes) store<A, lanes>(row + at, load<A, lanes>(row + at) * load<A, lanes>(factors + at));
    for (; at < length; ++at) row[at] *= factors[at];
}

// to = ((from * weights[0]) * weights[1]) * weights[2]
template <class A, class T, class S>
inline void weigh_row(T* to, const S* from, const A* weights, int64_t length) {
    each_column<A>(length, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        store<A, lanes>(to + at, ((load<A, lanes>(from + at) * weights[0]) * weights[1]) * weights[2]);
    });
}
// to = ((from * a) * b) * factors
template <class A, class T, class S>
inline void weigh_row(T* to, const S* from, A a, A b, const A* factors, int64_t length) {
    each_column<A>(length, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        store<A, lanes>(to + at, ((load<A, lanes>(from + at) * a) * b) * load<A, lanes>(factors + at));
    });
}

}  // namespace poolgrad::POOLGRAD_ISA
