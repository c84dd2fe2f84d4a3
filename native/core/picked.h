// Averages of rows whose terms are picked, and their gradients: where width is irregular, forward also where inner is some channels and the
// stride above 1.
// The rows of a window are summed down, then the terms along width are picked from what results.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// S stored, A accumulated; integers end as sums in A and are finished row by row (finish_integers).
template <class S, class A, bool gradient>
class PickedRows : Sides {
    static constexpr bool integers = std::is_integral_v<A>;
    using T = std::conditional_t<integers, A, S>;

  public:
    explicit PickedRows(const AverageCall& call) : Sides(call, gradient) {}

    bool usable() const {
        if (inner_ < 1 || inner_ >= 16 || width_.longest() > Picks<A>::kMost) return false;
        if (depth_.longest() > kBlock || height_.longest() > kBlock) return false;
        if (width_.axis->rule())
            return !gradient && inner_ > 1 && rule_.stride > 1 && depth_.longest() * height_.longest() <= kSlideRows && spans_halves();
        // Shorter rows of many planes are faster turned.
        return !can_turn(call_.layout) || (!integers && width_.destinations() >= kLeast);
    }

    void run(int64_t traffic) {
        stream_ = !integers && is_streamed(traffic);
        if constexpr (integers) small_ = sums_fit_float<S, A>(call_.layout);
        const int64_t most = kElements / inner_;
        Tiling tiling{destinations(), {1, depth_.destinations(), height_.destinations(), std::min(fitting_tile(width_, most), most), inner_}};
        columns_ = std::clamp<int64_t>(width_.sources(), 1, most);
        if (!depth_.axis->is_identity()) tiling.tile[2] = cached_heights(columns_ * inner_ * int64_t(sizeof(S)));
        balance(tiling, call_.workers, divide_up(traffic, tiling.elements()));
        tile_ = tiling.tile[3];
        const Rooms measure(*this, nullptr);
        run_boxes(tiling, call_.workers, traffic, measure.arena.used(), [this](const Box& box, std::byte* scratch) {
            Rooms rooms(*this, scratch);
            Writer<T> writer(static_cast<T*>(call_.destination), rooms.staging, staging_size());
            prepare(rooms, box.width);
            for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
                for (int64_t d = box.depth.first; d < box.depth.last; ++d) plane(rooms, writer, box, outer, d);
            writer.finish();
        });
    }

  private:
    static constexpr int64_t kElements = 4096;  // of a row in a box
    static constexpr int64_t kLeast = 64;       // destinations of a row
    static constexpr int64_t kAhead = 4;        // rows that are fetched
    static constexpr int64_t kExact = 1 << 24;  // divisors up to which products are rounded once, as the exact product is

    // Whether the first terms of half a register's windows lie within a register.
    bool spans_halves() const {
        constexpr int64_t half = kLanes<A> / 2;
        const auto first = [&](int64_t element) { return element / inner_ * inner_ * rule_.stride + element % inner_; };
        bool result = true;
        for (int64_t at = 0; at < half * inner_; at += half) result = result && first(at + half - 1) - first(at) < kLanes<A>;
        return result;
    }
    int64_t staging_size() const { return tile_ * inner_ + 512 / int64_t(sizeof(T)); }

    struct Rooms {
        Rooms(const PickedRows& job, std::byte* base) : arena(base) {
            const int64_t elements = job.tile_ * job.inner_;
            pitch = divide_up(job.columns_ * job.inner_ + Picks<A>::slack(job.width_.longest(), job.inner_), kLanes<A>) * kLanes<A>;
            sums = arena.take<A>(kTogether * pitch);
            factors = arena.take<A>(gradient ? job.columns_ * job.inner_ : elements + kLanes<A>);
            picks = Picks<A>(arena, elements);
            if (gradient) finished = arena.take<T>(elements);
            if (integers) totals = arena.take<T>(elements);
            if (job.stream_) staging = arena.take<T>(job.staging_size());
        }
        Arena arena;
        int64_t pitch;  // from row to row of sums
        A *sums, *factors;  // factors: in a gradient weights of the source's elements, else divisors of the destination's
        T *finished = nullptr, *totals = nullptr, *staging = nullptr;
        Picks<A> picks;
        Range columns{0, 0};  // of the source
        bool exact = true;    // divisors are
    };
    void prepare(Rooms& rooms, Range box) const {
        const Range columns = rooms.columns = width_.range(box);
        rooms.picks.prepare(box.size() * inner_, inner_, [&](int64_t i) {
            const Range range = width_.range(box.first + i / inner_);
            const int64_t first = (range.first - columns.first) * inner_ + i % inner_;
            return Range{first, first + range.size()};
        });
        const auto fill = [&](int64_t i, A value) { std::fill_n(rooms.factors + i * inner_, inner_, value); };
        if constexpr (gradient) {
            for (int64_t i = 0; i < columns.size(); ++i) fill(i, A(1) / A(width_.axis->divisor(columns.first + i)));
        } else if constexpr (!integers) {
            std::fill_n(rooms.factors + box.size() * inner_, kLanes<A>, A(1));
            for (int64_t i = 0; i < box.size(); ++i) {
                const int64_t divisor = width_.axis->divisor(box.first + i);
                rooms.exact = rooms.exact && divisor <= kExact;
                fill(i, A(divisor));
            }
        }
    }

    // All rows of a box in one depth. In a gradient several may be alike.
    void plane(Rooms& rooms, Writer<T>& writer, const Box& box, int64_t outer, int64_t d) const {
        const Range zs = depth_.range(d);
        const int64_t count = box.width.size() * inner_;
        const auto nothing = [&](Range ys) { return zs.empty() || ys.empty() || rooms.columns.empty(); };
        for (int64_t next = box.height.first; next < box.height.last;) {
            // Rows are picked from when some are summed down: stores need some time to be read from.
            Range heights[kTogether], ranges[kTogether];
            int together = 0;
            for (; together < kTogether && next < box.height.last; ++together) {
                heights[together] = {next, next + 1}, ranges[together] = height_.range(next);
                for (++next; gradient && next < box.height.last && height_.range(next) == ranges[together]; ++next) ++heights[together].last;
                if (nothing(ranges[together])) continue;
                fetch_rows(rooms, outer, zs, ranges[together]);
                sum_down(rooms, outer, zs, ranges[together], rooms.sums + together * rooms.pitch);
            }
            for (int i = 0; i < together; ++i) {
                const A* row = rooms.sums + i * rooms.pitch;
                const bool is_nothing = nothing(ranges[i]), alike = heights[i].size() > 1;
                if (alike && !is_nothing) pick(rooms, row, box.width, Divisor(), rooms.finished);
                for (int64_t h = heights[i].first; h < heights[i].last; ++h) {
                    const int64_t at = destination_at(outer, d, h, box.width.first);
                    const Divisor divisor = gradient ? Divisor() : Divisor().times(depth_.axis->divisor(d)).times(height_.axis->divisor(h));
                    T* to = integers ? rooms.totals : writer.row(at, count);
                    if (is_nothing)
                        std::memset(to, 0, std::size_t(count) * sizeof(T));
                    else if (alike)
                        copy_row(to, rooms.finished, count);
                    else
                        pick(rooms, row, box.width, divisor, to);
                    if constexpr (integers)
                        finish_integers(rooms.totals, box.width.size(), inner_, small_, divisor, *width_.axis, box.width.first,
                                        call_.destination_kind,
                                        static_cast<std::byte*>(call_.destination) + at * item_size(call_.destination_kind), inner_);
                }
            }
        }
    }

    // The rows that follow.
    void fetch_rows(const Rooms& rooms, int64_t outer, Range zs, Range ys) const {
        if (!fetches_rows(columns_ * inner_ * int64_t(sizeof(S)), 1)) return;
        for (int64_t z = zs.first; z < zs.last; ++z)
            for (int64_t y = ys.last; y < std::min(ys.last + kAhead, height_.sources()); ++y)
                fetch(source_at<S>(outer, z, y, rooms.columns.first), rooms.columns.size() * inner_);
    }
    // to <- the sums over depth and height; in a gradient with all weights.
    void sum_down(const Rooms& rooms, int64_t outer, Range zs, Range ys, A* to) const {
        A weights[2][gradient ? kBlock : 1];
        fill_weights<A>(depth_, zs.first, zs.size(), weights[0]), fill_weights<A>(height_, ys.first, ys.size(), weights[1]);
        const S* from = source_at<S>(outer, zs.first, ys.first, rooms.columns.first);
        const auto sum = [&](auto planes, auto rows) { sum_rows_of(rooms, from, weights[0], weights[1], planes, rows, to); };
        if (zs.size() == 1 && ys.size() == 1) return sum(Constant<1>(), Constant<1>());
        if (zs.size() == 1 && ys.size() == 2) return sum(Constant<1>(), Constant<2>());
        if (zs.size() == 1 && ys.size() == 3) return sum(Constant<1>(), Constant<3>());
        sum(zs.size(), ys.size());
    }
    template <class Planes, class Rows>
    POOLGRAD_NOINLINE void sum_rows_of(const Rooms& rooms, const S* from, const A* depth_weights, const A* height_weights, Planes planes,
                                       Rows rows, A* to) const {
        const int64_t row = width_.sources() * inner_, plane = height_.sources() * row;
        const A* factors = rooms.factors;
        each_column<A>(rooms.columns.size() * inner_, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            const auto weighed = [](auto sum, const A* weight) POOLGRAD_LAMBDA {
                if constexpr (gradient)
                    return sum * *weight;
                else
                    return sum;
            };
            const auto nothing = spread<A, lanes>(A(-0.0));  // added to anything, it changes nothing
            auto total = nothing;
            for (int64_t y = 0; y < rows; ++y) {
                auto sum = nothing;
                for (int64_t z = 0; z < planes; ++z) sum = sum + weighed(load<A, lanes>(from + z * plane + y * row + at), depth_weights + z);
                total = total + weighed(sum, height_weights + y);
            }
            if constexpr (gradient) total = total * load<A, lanes>(factors + at);
            store<A, lanes>(to + at, total);
        });
    }

    // to <- the sums along width, forward divided.
    POOLGRAD_NOINLINE void pick(const Rooms& rooms, const A* row, Range box, Divisor divisor, T* to) const {
        constexpr int lanes = kLanes<A>;
        const int64_t count = box.size() * inner_;
        const A by = divisor.as<A>();
        const bool exact = rooms.exact && divisor.exact <= kExact;
        const auto all = [&](auto how, auto shortest, auto longest) POOLGRAD_LAMBDA {
            for (int64_t at = 0; at < count; at += lanes) {
                const typename Picks<A>::template Terms<decltype(how)::value> terms(rooms.picks, row, at);
                const auto nothing = spread<A, lanes>(A(-0.0));
                auto sum = nothing;
                for (int32_t t = 0; t < shortest; ++t) sum = sum + terms.term(t);
                for (int32_t t = shortest; t < longest; ++t) sum = sum + select<A, lanes>(terms.has(t), terms.term(t), nothing);
                if constexpr (gradient)
                    if (shortest == 0) sum = select<A, lanes>(terms.has(0), sum, spread<A, lanes>(A(0)));
                if constexpr (!gradient && !integers) {
                    auto divisors = load<A, lanes>(rooms.factors + at) * by;
                    for (int i = 0; !exact && i < lanes && at + i < count; ++i)
                        divisors[i] = divisor.times(width_.axis->divisor(box.first + (at + i) / inner_)).template as<A>();
                    sum = sum / divisors;
                }
                T rest[lanes];
                const int64_t left = count - at;
                store<A, lanes>(left >= lanes ? to + at : rest, sum);
                if (left < lanes) std::memcpy(to + at, rest, std::size_t(left) * sizeof(T));
            }
        };
        // Few terms are worth code of their own.
        const int32_t shortest = rooms.picks.shortest(), longest = rooms.picks.longest();
        rooms.picks.visit([&](auto how) POOLGRAD_LAMBDA {
            if (how() != Pick::each && gradient && shortest == 1 && longest == 1)
                all(how, Constant<1>(), Constant<1>());
            else if (how() != Pick::each && shortest == 1 && longest == 2)
                all(how, Constant<1>(), Constant<2>());
            else if (how() != Pick::each && shortest && longest == 3)
                all(how, Constant<1>(), Constant<3>());
            else
                all(how, shortest, longest);
        });
    }

    bool stream_ = false, small_ = false;  // small: sums of integers are divided in float
    int64_t columns_ = 1, tile_ = 1;       // of the source and of the destination in a box, at most
};

}  // namespace poolgrad::POOLGRAD_ISA
