// Averages of integers that take their terms in row-major order, not axis by axis: means of 64 bits or of huge windows, and TensorFlow's
// gradient.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

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
                for (int64_t c = 0; c < whole; c += lanes)
                    store<double, lanes>(total + c, load<double, lanes>(total + c) + load<double, lanes>(quotients + c));
                for (int64_t c = whole; c < inner; ++c) total[c] += quotients[c];
            }
        }
    }

    const int64_t run_, most_;  // inner elements and columns of a box, at most
};

}  // namespace poolgrad::POOLGRAD_ISA
