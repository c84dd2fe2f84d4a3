// Small windows with a long inner run, over all axes at once: terms are read where they lie.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// How many neighbours there are along depth, height and width, or how many elements lie from one to the next.
struct Steps {
    int64_t depth, height, width;
};

// to <- the average of a window of runs, of integers the sum; `so_far` is room for a run of sums.
// Four registers of each term, column by column: of several runs of one row at once the CPU foresees none.
template <class S, class A, class T>
POOLGRAD_NOINLINE void direct_run(const S* source, const Steps& terms, const Steps& pitches, int64_t run, A divisor, A* const so_far, T* to) {
    constexpr bool integers = std::is_integral_v<A>;
    constexpr int lanes = kLanes<A>, many = 4 * lanes;
    const int64_t plane_pitch = pitches.depth, row_pitch = pitches.height, pitch = pitches.width;
    const int64_t planes = terms.depth, rows = terms.height, columns = terms.width;
    bool multiplies = false;
    A reciprocal{};
    if constexpr (!integers) multiplies = is_power_of_two(divisor), reciprocal = A(1) / divisor;
    // Adds some columns to what is there so far of the registers from `at` on.
    const auto part = [&](auto registers, int64_t at, Range xs) POOLGRAD_LAMBDA {
        using Cells = Registers<A, registers()>;
        auto total = xs.first ? Cells::read(so_far + at) : Cells::all(A(-0.0));
        for (int64_t x = xs.first; x < xs.last; ++x) {
            auto column = Cells::all(A(-0.0));
            for (int64_t y = 0; y < rows; ++y) {
                const S* term = source + at + x * pitch + y * row_pitch;
                auto sum = Cells::read(term);
                for (int64_t z = 1; z < planes; ++z) sum = sum + Cells::read(term + z * plane_pitch);
                column = column + sum;
            }
            total = total + column;
        }
        if (xs.last < columns)
            total.write(so_far + at);
        else if constexpr (integers)
            total.write(to + at);
        else if (multiplies)
            (total * reciprocal).write(to + at);
        else
            (total / divisor).write(to + at);
    };
    const int64_t whole = run / many * many;
    for (int64_t x = 0; x < columns; ++x)
        for (int64_t at = 0; at < whole; at += many) part(Constant<4>(), at, {x, x + 1});
    for (int64_t at = whole; at < run; at += lanes) part(Constant<1>(), std::min(at, run - lanes), {0, columns});
}

}  // namespace poolgrad::POOLGRAD_ISA
