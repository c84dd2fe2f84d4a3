// Destinations that are sums of runs of a row: some neighbours at a time, ranges longer than a block in blocks, and long windows of one
// channel side by side.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// to <- the sum of the 1 to kBlock rows of a block, or it is added to those before.
template <bool gradient, class A, class Rows>
POOLGRAD_NOINLINE void add_block(const Rows& rows, const A* weights, int64_t count, int64_t length, A* to, bool add) {
    if (add)
        sum_rows<gradient>(rows, weights, count, length, AddSink<A>{to});
    else
        sum_rows<gradient>(rows, weights, count, length, StoreSink<A, A>{to});
}
// to <- the total of all blocks; floats forward are divided.
template <bool gradient, class A, class To>
POOLGRAD_NOINLINE void finish_run(const A* total, int64_t run, A divisor, To* to) {
    if constexpr (gradient || std::is_integral_v<A>)
        sum_rows<false>(PitchRows<A>{total, 0}, total, 1, run, StoreSink<A, To>{to});
    else
        sum_rows<false>(PitchRows<A>{total, 0}, total, 1, run, DivideSink<A, To>{to, divisor});
}

// totals <- (or are added) the sums of `count` elements from each of kPlanes starts on.
template <class A, class Start>
POOLGRAD_INLINE void sum_beside(const Start& start, int64_t count, A* totals, bool add) {
    std::decay_t<decltype(start(0))> from[kPlanes<A>];
    for (int64_t p = 0; p < kPlanes<A>; ++p) from[p] = start(p);
    sum_along_planes<A>(totals, from, count, add);
}
// total <- the sum of a block each, kPlanes at a time, of a long window whose inner run is 1. Returns how many elements were taken.
template <class A, class From>
POOLGRAD_NOINLINE int64_t sum_blocks(const From* from, int64_t count, A& total) {
    int64_t first = 0;
    for (; first + kPlanes<A> * kBlock <= count; first += kPlanes<A> * kBlock) {
        A sums[kPlanes<A>];
        sum_beside([&](int64_t p) { return from + first + p * kBlock; }, kBlock, sums, false);
        for (int64_t p = 0; p < kPlanes<A>; ++p) total = first || p ? total + sums[p] : sums[p];
    }
    return first;
}

// Windows of one channel: how far each begins behind the one before, their length, and how many each of kPlanes parts of the row has.
struct PartWindows {
    int64_t step, length, each;
};
inline constexpr int kWindowsAtOnce = 4;  // that overlap, at most

// put(index, total) for kPlanes * each windows, of which each lane has neighbours: an element is turned once for all windows that it lies
// in, not once for each. Every sum keeps its own order, in blocks from the window's start.
template <class A, class From, class Put>
POOLGRAD_NOINLINE void sum_in_parts(const From* row, PartWindows windows, const Put& put) {
    constexpr int lanes = kLanes<A>, part = kPart<A>;
    constexpr int64_t kCacheLine = 64 / int64_t(sizeof(From));  // elements
    using V = Vector<A, lanes>;
    const int64_t step = windows.step, length = windows.length, each = windows.each;
    const int64_t pitch = each * step, next_parts = kPlanes<A> * pitch;
    V sums[kWindowsAtOnce][2], totals[kWindowsAtOnce][2];  // of window w at w % kWindowsAtOnce
    const V nothing = spread<A, lanes>(A(-0.0));
    // Elements [begin, end) of all parts for the windows from `first` on.
    const auto add = [&](auto many, int64_t first, int64_t begin, int64_t end) {
        V now[many()][2];
        for (int j = 0; j < many(); ++j)
            for (int half = 0; half < 2; ++half) now[j][half] = sums[(first + j) % kWindowsAtOnce][half];
        // Four of their elements from `from` on, the last `count` of them.
        const auto square = [&](const From* from, int count) POOLGRAD_LAMBDA {
            for (int half = 0; half < 2; ++half, from += lanes * pitch) {
                V v[part];
                load_square<A>(v, PitchRows<From>{from, pitch});
                for (int e = 0; e < part; ++e)
                    for (int j = 0; e >= part - count && j < many(); ++j) now[j][half] = now[j][half] + v[e];
            }
        };
        const From *from = row + begin, *const last = row + end;
        for (; from + kCacheLine <= last; from += kCacheLine) {
            for (int64_t p = 0; p < kPlanes<A>; ++p) __builtin_prefetch(from + next_parts + p * pitch, 0, 2);
            for (int64_t i = 0; i < kCacheLine; i += part) square(from + i, part);
        }
        for (; from + part <= last; from += part) square(from, part);
        if (from < last) square(last - part, int(last - from));  // overlaps the one before
        for (int j = 0; j < many(); ++j)
            for (int half = 0; half < 2; ++half) sums[(first + j) % kWindowsAtOnce][half] = now[j][half];
    };
    for (int64_t first = 0, next = 0, at = 0; first < each;) {  // windows [first, next) are under way
        if (first == next) at = next * step;
        for (; next < each && next * step == at; ++next) sums[next % kWindowsAtOnce][0] = sums[next % kWindowsAtOnce][1] = nothing;
        int64_t end = next < each ? next * step : INT64_MAX;
        for (int64_t w = first; w < next; ++w) end = std::min(end, w * step + std::min(length, ((at - w * step) / kBlock + 1) * kBlock));
        switch (next - first) {
            case 1: add(Constant<1>(), first, at, end); break;
            case 2: add(Constant<2>(), first, at, end); break;
            case 3: add(Constant<3>(), first, at, end); break;
            default: add(Constant<4>(), first, at, end);
        }
        at = end;
        for (int64_t w = first; w < next; ++w) {
            const int64_t done = at - w * step;
            if (done % kBlock && done != length) continue;
            for (int half = 0; half < 2; ++half) {
                V &sum = sums[w % kWindowsAtOnce][half], &total = totals[w % kWindowsAtOnce][half];
                total = done > kBlock ? total + sum : sum, sum = nothing;
                if (done != length) continue;
                for (int lane = 0; lane < lanes; ++lane) put((half * lanes + lane) * each + w, total[lane]);
            }
            first += done == length;
        }
    }
}

template <class A, bool gradient>
struct Runs {
    Span* spans = nullptr;       // the runs of each destination
    A* total = nullptr;          // room for a run of sums
    const A* factors = nullptr;  // in a gradient the weights of the row's runs, else the divisors of destinations
    int64_t run = 0;             // elements of one
    bool beside = false;         // they have one element, and ranges so many that several are summed side by side

    // slot(0 .. count - 1) <- the sums of these runs; `joined`: the slots lie side by side.
    template <class Rows, class Slot>
    POOLGRAD_NOINLINE void sum(const Rows& rows, int64_t count, bool joined, const Slot& slot) const {
        using To = std::remove_pointer_t<decltype(slot(0))>;
        for (int64_t i = 0; i < count;) {
            const Span span = spans[i];
            if (span.count <= 0 || span.count > kBlock) {
                To* to = slot(i);
                if (span.count <= 0)
                    std::memset(to, 0, std::size_t(run) * sizeof(To));
                else
                    sum_long(rows, span, to, factors + (gradient ? span.first : i));
                ++i;
                continue;
            }
            int together = 1;
            while (joined && together < kTogether && i + together < count && spans[i + together].count > 0 &&
                   spans[i + together].count <= kBlock)
                ++together;
            To* to = slot(i);
            if constexpr (gradient || std::is_integral_v<A>) {
                const StoreSink<A, To> sinks[kTogether] = {{to}, {to + run}, {to + 2 * run}, {to + 3 * run}};
                sum_spans<gradient>(rows, factors, spans + i, together, run, sinks);
            } else {
                const A* by = factors + i;
                DivideSink<A, To> sinks[kTogether];
                for (int j = 0; j < together; ++j) sinks[j] = {to + j * run, by[j]};
                sum_spans<gradient>(rows, by, spans + i, together, run, sinks);
            }
            i += together;
        }
    }

    // The same forward of floats where `beside`: in parts of the row, or up to kPlanes windows of one length together.
    template <class From, class To>
    POOLGRAD_NOINLINE void sum_windows(const From* row, int64_t count, To* to) const {
        for (int64_t i = 0; i < count;) {
            const Span span = spans[i];
            if (const int64_t each = count_of_parts(i, count); each) {
                const auto put = [&](int64_t at, A total) { store<A, 1>(to + i + at, total / factors[i + at]); };
                sum_in_parts<A>(row + span.first, {spans[i + 1].first - span.first, span.count, each}, put);
                i += kPlanes<A> * each;
                continue;
            }
            int64_t alike = 1;
            while (alike < std::min<int64_t>(kPlanes<A>, count - i) && spans[i + alike].count == span.count) ++alike;
            if (span.count <= 0 || alike == 1) {
                if (span.count <= 0)
                    std::memset(to + i, 0, sizeof(To));
                else
                    sum_long(PitchRows<From>{row, 1}, span, to + i, factors + i);
                ++i;
                continue;
            }
            A totals[kPlanes<A>];
            const auto start = [&](int64_t p) { return row + spans[i + std::min(p, alike - 1)].first; };
            if (const int64_t next = i + alike; next < count)
                fetch(row + spans[next - 1].last(), spans[std::min(next + alike, count) - 1].last() - spans[next - 1].last());
            for (int64_t first = 0; first < span.count; first += kBlock)
                sum_beside([&](int64_t p) { return start(p) + first; }, std::min(kBlock, span.count - first), totals, first != 0);
            sum_rows<false>(PitchRows<A>{totals, 0}, totals, 1, alike, DivideRowSink<A, To>{to + i, factors + i});
            i += alike;
        }
    }

  private:
    // How many windows each of kPlanes parts of the row has, from window i on; 0 where such parts would be no gain, or windows differ.
    int64_t count_of_parts(int64_t i, int64_t count) const {
        const int64_t each = (count - i) / kPlanes<A>;
        if (each < 2) return 0;
        const int64_t step = spans[i + 1].first - spans[i].first, window = spans[i].count;
        if (step * kWindowsAtOnce < window || window < kPart<A>) return 0;
        int64_t alike = 1;
        while (alike < each * kPlanes<A> && spans[i + alike].count == window && spans[i + alike].first == spans[i].first + alike * step) ++alike;
        return alike / kPlanes<A> >= 2 ? alike / kPlanes<A> : 0;
    }
    // One destination from more rows than a block; `by` are their weights in a gradient, else the divisor.
    template <class Rows, class To>
    void sum_long(const Rows& rows, Span span, To* to, const A* by) const {
        int32_t first = 0;
        if constexpr (!gradient && !std::is_integral_v<A>)
            if (beside) first = int32_t(sum_blocks(rows(span.first), span.count, *total));
        for (; first < span.count; first += int32_t(kBlock))
            add_block<gradient>(Rows{rows(span.first + first), rows.pitch}, by + (gradient ? first : 0),
                                std::min<int64_t>(kBlock, span.count - first), run, total, first != 0);
        finish_run<gradient>(total, run, *by, to);
    }
};

}  // namespace poolgrad::POOLGRAD_ISA
