// Windows of 3 by 1 and by 2 and their gradients where inner is long: every column is read once, a sum of up to three rows, and stays in
// registers for the results that it is part of.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// The columns of a row that there are, `run` elements each, and their weights along width in a gradient, else the divisors of the results.
template <class A>
struct ThreeColumns {
    Range range;
    int64_t run;
    const A* factors;
};

// The rows of the source that make a row of results: some of a height each and, where depth has something to sum, those behind them in the
// next plane; and their weights along both.
template <class A, class From>
struct BackRows {
    const From* rows[2];
    int64_t plane_pitch;
    A height_weights[2], depth_weights[2];
};

// The gradient of windows of 3 by 2: every column of the source is read once, four registers of it, and makes an input that lies in
// two windows and one that lies in one. Columns are sums of one or two rows, each of one or two planes (0: depth has nothing to sum). `first`
// is the first result, counted from where the first window begins.
template <int planes, int rows, class A, class From, class T>
POOLGRAD_NOINLINE void back_runs(const ThreeColumns<A>& columns, const BackRows<A, From>& from, int64_t first, int64_t count, T* to) {
    constexpr int lanes = kLanes<A>;
    const int64_t run = columns.run, group = first / 2, lead = first % 2;
    const auto part = [&](auto registers, int64_t at) POOLGRAD_LAMBDA {
        Vector<A, lanes> before[registers()], now[registers()];
        const auto read = [&](int64_t q) POOLGRAD_LAMBDA {
            const bool there = q >= columns.range.first && q < columns.range.last;
            const int64_t element = there ? (q - columns.range.first) * run + at : 0;
            for (int u = 0; u < registers(); ++u) {
                if (!there) {
                    now[u] = spread<A, lanes>(A(-0.0));
                    continue;
                }
                const auto row = [&](int y) POOLGRAD_LAMBDA {
                    const From* term = from.rows[y] + element + u * lanes;
                    auto sum = load<A, lanes>(term);
                    if constexpr (planes > 0) sum = sum * from.depth_weights[0];
                    if constexpr (planes > 1) sum = sum + load<A, lanes>(term + from.plane_pitch) * from.depth_weights[1];
                    return sum * from.height_weights[y];
                };
                auto sum = row(0);
                if constexpr (rows == 2) sum = sum + row(1);
                now[u] = sum * columns.factors[q - columns.range.first];
            }
        };
        read(group - 1);
        T* result = to + at;
        for (int64_t i = 0, q = group; i < count; ++q) {
            for (int u = 0; u < registers(); ++u) before[u] = now[u];
            read(q);
            if (i || !lead) {
                for (int u = 0; u < registers(); ++u) store<A, lanes>(result + u * lanes, before[u] + now[u]);
                result += run, ++i;
            }
            if (i < count) {
                for (int u = 0; u < registers(); ++u) store<A, lanes>(result + u * lanes, now[u]);
                result += run, ++i;
            }
        }
    };
    int64_t at = 0;
    for (; at + 4 * lanes <= run; at += 4 * lanes) part(Constant<4>(), at);
    for (; at < run; at += lanes) part(Constant<1>(), std::min(at, run - lanes));
}

// Windows of 3 by 1 or by 2, or the gradient of those by 1: every column is read once, a sum of up to three rows, and the last three
// make a result. `first` is the first column of the first result, `ahead` how far on the rows lie that the next results read.
template <bool gradient, int rows, int stride, class A, class From, class T>
POOLGRAD_NOINLINE void three_runs(const ThreeColumns<A>& columns, const From* const* from, const A* weights, int64_t ahead, int64_t first,
                                  int64_t count, T* to) {
    constexpr int lanes = kLanes<A>;
    const int64_t run = columns.run;
    const auto part = [&](auto registers, int64_t at) POOLGRAD_LAMBDA {
        using Cell = Vector<A, lanes>;
        const auto read = [&](Cell* column, int64_t q) POOLGRAD_LAMBDA {
            const bool there = q >= columns.range.first && q < columns.range.last;
            const int64_t element = there ? (q - columns.range.first) * run + at : 0;
            // What the next row of results will read: the CPU does not foresee parts of rows.
            const From* below = from[rows - 1] + element;
            for (int i = 1; i <= stride; ++i)
                for (int u = 0; u < registers() * lanes; u += 64 / int(sizeof(From))) __builtin_prefetch(below + i * ahead + u, 0, 2);
            for (int u = 0; u < registers(); ++u) {
                if (!there) {
                    column[u] = spread<A, lanes>(A(-0.0));
                    continue;
                }
                const auto term = [&](int i) POOLGRAD_LAMBDA {
                    const auto value = load<A, lanes>(from[i] + element + u * lanes);
                    return gradient ? value * weights[i] : value;
                };
                auto sum = term(0);
                for (int i = 1; i < rows; ++i) sum = sum + term(i);
                column[u] = gradient ? sum * columns.factors[q - columns.range.first] : sum;
            }
        };
        Cell before[registers()], now[registers()], next[registers()];
        read(before, first);
        if constexpr (stride == 1) read(now, first + 1);
        for (int64_t i = 0; i < count; ++i) {
            if constexpr (stride == 2) read(now, first + 2 * i + 1);
            read(next, first + stride * i + 2);
            for (int u = 0; u < registers(); ++u) {
                auto sum = before[u] + now[u] + next[u];
                if constexpr (!gradient) sum = sum / spread<A, lanes>(columns.factors[i]);
                store<A, lanes>(to + i * run + at + u * lanes, sum);
                before[u] = stride == 1 ? now[u] : next[u], now[u] = next[u];
            }
        }
    };
    int64_t at = 0;
    for (; at + 4 * lanes <= run; at += 4 * lanes) part(Constant<4>(), at);
    for (; at < run; at += lanes) part(Constant<1>(), std::min(at, run - lanes));
}

// The results of a box, one after the other, from these rows.
template <bool gradient, int rows, class A, class From, class T>
void sum_threes(const ThreeColumns<A>& columns, const From* const* from, const A* weights, int64_t ahead, const Rule& rule, Range box, T* to) {
    const int64_t first = gradient ? box.first + rule.before - 2 : box.first * rule.stride - rule.before;
    if (rule.stride == 1) return three_runs<gradient, rows, 1>(columns, from, weights, ahead, first, box.size(), to);
    if constexpr (!gradient) three_runs<gradient, rows, 2>(columns, from, weights, ahead, first, box.size(), to);
}
// The same of a gradient of windows of 3 by 2.
template <class A, class From, class T>
void sum_back(const ThreeColumns<A>& columns, const BackRows<A, From>& from, int64_t planes, int64_t rows, const Rule& rule, Range box, T* to) {
    const auto make = [&](auto some_planes) {
        if (rows == 1)
            back_runs<some_planes(), 1>(columns, from, box.first + rule.before, box.size(), to);
        else
            back_runs<some_planes(), 2>(columns, from, box.first + rule.before, box.size(), to);
    };
    if (planes == 0)
        make(Constant<0>());
    else if (planes == 1)
        make(Constant<1>());
    else
        make(Constant<2>());
}

}  // namespace poolgrad::POOLGRAD_ISA
