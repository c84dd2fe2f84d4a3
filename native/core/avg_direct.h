// Small windows with a long inner run, over all axes at once: terms are read where they lie.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// A row of windows: of which columns of `source` each is, and by what its sum is divided. They all have these planes and rows.
template <class S, class A>
struct DirectRow {
    const S* source;
    int64_t plane_pitch, row_pitch, pitch;  // from plane to plane, row to row, column to column
    int64_t planes, rows, run;
    const Span* spans;
    int64_t count;
    const A* divisors;
    A* so_far;  // room for a run of sums
};

inline constexpr int64_t kFewColumns = 3;  // of a window, that are read by turns

// slot(i) <- the average of window i, of integers the sum; how many planes and rows there are may be known to the compiler.
template <class S, class A, class Planes, class Rows, class Slot>
POOLGRAD_NOINLINE void average_directly(const DirectRow<S, A>& job, Planes planes, Rows rows, const Slot& slot) {
    constexpr bool integers = std::is_integral_v<A>;
    constexpr int lanes = kLanes<A>, many = 4 * lanes;
    const int64_t plane_pitch = job.plane_pitch, row_pitch = job.row_pitch, pitch = job.pitch, run = job.run, whole = run / many * many;
    A* const so_far = job.so_far;
    for (int64_t i = 0; i < job.count; ++i) {
        const S* source = job.source + job.spans[i].first * pitch;
        const int64_t columns = job.spans[i].count;
        auto* const to = slot(i);
        const A divisor = job.divisors[i];
        bool multiplies = false;
        A reciprocal{};
        if constexpr (!integers)
            if (multiplies = is_power_of_two(divisor); multiplies) reciprocal = A(1) / divisor;
        // Four registers at a time; many long runs column by column: of so many at once the CPU foresees none.
        const bool by_columns = columns > kFewColumns && run * int64_t(sizeof(S)) > 512;
        // Adds some columns to what is there so far of the registers from `at` on.
        const auto part = [&](auto registers, int64_t at, Range xs) POOLGRAD_LAMBDA {
            using Cells = Registers<A, registers()>;
            const auto read = [&](const S* term) POOLGRAD_LAMBDA {
                if (!by_columns) fetch_next_page(term, registers() * lanes);
                return Cells::read(term);
            };
            const auto column = [&](int64_t x) POOLGRAD_LAMBDA {
                const auto row = [&](int64_t y) POOLGRAD_LAMBDA {
                    const S* term = source + at + x * pitch + y * row_pitch;
                    auto sum = read(term);
                    for (int64_t z = 1; z < planes; ++z) sum = sum + read(term + z * plane_pitch);
                    return sum;
                };
                auto sum = row(0);
                for (int64_t y = 1; y < rows; ++y) sum = sum + row(y);
                return sum;
            };
            auto total = column(xs.first);
            if (xs.first) total = Cells::read(so_far + at) + total;
            for (int64_t x = xs.first + 1; x < xs.last; ++x) total = total + column(x);
            if (xs.last < columns)
                total.write(so_far + at);
            else if constexpr (integers)
                total.write(to + at);
            else if (multiplies)
                (total * reciprocal).write(to + at);
            else
                (total / divisor).write(to + at);
        };
        for (int64_t x = 0; by_columns && x < columns; ++x)
            for (int64_t at = 0; at < whole; at += many) part(Constant<4>(), at, {x, x + 1});
        for (int64_t at = 0; !by_columns && at < whole; at += many) part(Constant<4>(), at, {0, columns});
        for (int64_t at = whole; at < run; at += lanes) part(Constant<1>(), std::min(at, run - lanes), {0, columns});
    }
}
template <class S, class A, class Slot>
void average_directly(const DirectRow<S, A>& job, const Slot& slot) {
    if (job.planes == 1 && job.rows == 2)
        average_directly(job, Constant<1>(), Constant<2>(), slot);
    else if (job.planes == 2 && job.rows == 2)
        average_directly(job, Constant<2>(), Constant<2>(), slot);
    else if (job.planes == 1 && job.rows == 1)
        average_directly(job, Constant<1>(), Constant<1>(), slot);
    else
        average_directly(job, job.planes, job.rows, slot);
}

}  // namespace poolgrad::POOLGRAD_ISA
