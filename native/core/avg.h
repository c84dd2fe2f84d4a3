// Averages and their gradients: one separable driver for both.
// Order of the numbers (same bits whatever the tiling): sums over depth, then height, then width, each ascending from the range's
// own start, first term assigned, in blocks of 256; forward one true division at the end, in a gradient each term times 1/divisor of
// its axis in that axis's pass. Lanes of a vector are different destinations, never terms of one sum.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// How a row is summed along width.
enum class Across {
    direct,  // inner is long, windows are small: each destination at once, over all axes
    runs,    // inner is long: each destination is a sum of runs of the row
    line,    // inner is short, the axis regular: the whole row at once, shifted (stride 1) or in phases
    blocks,  // a single range exceeds a row of scratch: one destination at a time, its range in blocks
};

// S stored, A accumulated. Integers end as sums in A and are finished row by row (finish_integers).
template <class S, class A, bool gradient>
class Average : Sides {
    static constexpr bool integers = std::is_integral_v<A>;
    using T = std::conditional_t<integers, A, S>;

  public:
    explicit Average(const AverageCall& call)
        : Sides(call, gradient), depth_trivial_(depth_.axis->is_identity()), height_trivial_(height_.axis->is_identity()),
          regular_(width_.axis->rule() != nullptr) {}

    void run() {
        Tiling tiling{destinations(), {}};
        if (tiling.empty()) return;
        const int64_t result_bytes = tiling.elements() * item_size(call_.destination_kind);
        // In doubles: of sources that are empty the other sizes may be anything.
        double read = double(sizeof(S));
        for (int64_t size : {call_.layout.outer, depth_.sources(), height_.sources(), width_.sources(), inner_}) read *= double(size);
        const int64_t traffic = int64_t(std::min(read, 0x1p60)) + result_bytes;
        if constexpr (gradient)
            if (Fill<S, A> fill(call_); fill.usable()) return fill.run(traffic);
        if constexpr (!gradient && !integers)
            if (GlobalAverage<S, A> global(call_); global.usable()) return global.run(traffic);
        if constexpr (!integers)
            if (NarrowPlanes<S, A, gradient> narrow(call_); narrow.usable()) return narrow.run(traffic);
        if constexpr (!integers)
            if (SmallWindows<S, A, gradient> small(call_); small.usable()) return small.run(traffic);
        if constexpr (!gradient && std::is_integral_v<S> && sizeof(S) <= 2)
            if (SmallWindows<S, std::conditional_t<sizeof(S) == 1, int16_t, int32_t>, false> small(call_); small.usable())
                return small.run(traffic);
        if (PickedRows<S, A, gradient> picked(call_); picked.usable()) return picked.run(traffic);
        if (turns() && run_turned(call_, gradient, [](const AverageCall& part) { Average(part).run(); })) return;
        plan(tiling);
        balance(tiling, call_.workers, divide_up(traffic, tiling.elements()));
        stream_ = !integers && is_streamed(traffic);
        if constexpr (integers) small_ = sums_fit_float<S, A>(call_.layout);
        tile_ = tiling.tile[3];
        const Rooms measure(*this, nullptr);
        run_boxes(tiling, call_.workers, traffic, measure.arena.used(),
                  [this](const Box& box, std::byte* scratch) { compute(box, scratch); });
    }

  private:
    static constexpr int64_t kDirect = 16, kDirectOverlapping = 9;  // rows of windows apart, terms of others
    static constexpr int64_t kLine = 64 / int64_t(sizeof(A));  // elements of a line of the cache
    static constexpr int64_t kLongWindow = 32;  // elements; longer ones are summed side by side
    static constexpr int64_t kDirectRun = 2048;  // inner elements: so few are not cut, as a rest could be less than a register

    // Sizes of the scratch and of a box.
    void plan(Tiling& tiling) {
        const bool both = !depth_trivial_ && !height_trivial_;
        const bool direct = !gradient && inner_ >= 2 * kLanes<A> && inner_ <= kDirectRun && is_direct();
        ring_rows_ = both && !direct ? std::min(height_.together(kTogether), kBlock) : 0;
        planes_ = both && ring_rows_ <= 32 && !apart() ? kTogether : 1;
        // Elements of one row of sums: 4096, or as many as keep the columns that neighbouring boxes both sum below a sixth, within
        // 16384 (64 KiB of floats) and the ring of rows within 2 MiB of doubles.
        const int64_t most = std::clamp<int64_t>((256 << 10) / std::max<int64_t>(1, ring_rows_ * planes_), 1024, 16384);
        const int64_t block = std::min(width_.longest(), kBlock);
        run_ = direct || inner_ * block <= most ? inner_ : std::min(inner_, std::max<int64_t>(64, most / block / 16 * 16));
        // Long windows of one channel are summed side by side: of a long row, few are left.
        const int64_t least = !gradient && inner_ == 1 && width_.longest() > kLongWindow ? most : 4096;
        columns_ = std::max<int64_t>(1, std::min(most, std::max(least, 6 * width_.longest() * run_)) / run_);
        const bool line = run_ == inner_ && inner_ < 16 && fits_line();
        across_ = width_.longest() > columns_ ? Across::blocks : line ? Across::line : Across::runs;
        if (direct) across_ = Across::direct;
        shifted_ = !integers && across_ == Across::line && rule_.stride == 1;
        const bool by_three = !integers && across_ == Across::runs && regular_ && run_ == inner_ && inner_ >= kLanes<A> &&
                              rule_.window == 3 && (!gradient || is_covered());
        back_ = gradient && by_three && rule_.stride == 2 && height_.longest() <= 2;
        three_ = by_three && (rule_.stride == 1 || (!gradient && rule_.stride == 2)) && height_.longest() <= 3;
        const int64_t across = across_ == Across::blocks ? 1 : std::min(fitting_tile(width_, columns_), columns_);
        columns_ = across_ == Across::blocks ? block : std::clamp<int64_t>(width_.sources(), 1, columns_);
        const int64_t down = depth_trivial_ ? tiling.extent[2] : cached_heights(columns_ * run_ * int64_t(sizeof(S)));
        tiling.tile = {1, tiling.extent[1], down, across, run_};
    }

    // Whether a row can be summed as a whole.
    bool fits_line() const {
        if (!regular_) return false;
        const int64_t terms = gradient ? divide_up(rule_.window, rule_.stride) : rule_.window;
        return rule_.window <= rule_.input_size && terms <= kBlock && (gradient ? terms <= rule_.output_size : rule_.stride <= 64);
    }
    // Whether planes are faster turned: rows that are irregular or fill few registers.
    bool turns() const {
        if (!can_turn(call_.layout) || width_.sources() == 1) return false;
        const int64_t widest = std::max(width_.sources(), width_.destinations());
        return !regular_ || (!integers && !(fits_line() && widest >= 64));
    }
    // Whether windows are so small that sharing what they have in common is not worth it. Those of 3 have a way of their own.
    bool is_direct() const {
        bool apart = true;
        for (const Side& side : {depth_, height_, width_}) apart = apart && side.axis->longest_cover() == 1;
        const bool by_three = regular_ && rule_.window == 3 && rule_.stride <= 2;
        const int64_t rows = depth_.longest() * height_.longest();
        if (apart) return rows <= kDirect && width_.longest() <= kBlock;
        return rows * width_.longest() <= (by_three ? 0 : kDirectOverlapping);
    }

    // Destinations along one axis with the same source range, and that range.
    struct Group {
        Range destinations, range;
    };
    struct Groups {
        int count = 0;
        Group groups[kTogether];
        Range all{0, 0};  // the union of their ranges
    };
    // The groups of the destinations from `first` on: at most `most`, and several only if none is empty or longer than a block, and
    // all ranges together are within `room`.
    static Groups next_groups(const Side& side, int64_t first, int64_t last, int most, int64_t room) {
        Groups result;
        for (int64_t i = first; i < last; ++i) {
            const Range range = side.range(i);
            if (result.count && range == result.groups[result.count - 1].range) {
                result.groups[result.count - 1].destinations.last = i + 1;
                continue;
            }
            const bool joins = result.count < most && !result.all.empty() && !range.empty() && range.last - result.all.first <= room;
            if (result.count && !joins) break;
            result.all = {result.count ? result.all.first : range.first, range.last};
            result.groups[result.count++] = {{i, i + 1}, range};
        }
        return result;
    }

    // The row of a box that is summed as a whole: from which index of the source on it runs, and how long it is. Beyond the source it
    // holds -0.0, which added to anything changes nothing.
    struct Line {
        int64_t first = 0, length = 0;
        int64_t groups = 0, terms = 0;  // gradient: groups of `stride` destinations, terms of the longer sums
        int64_t lead = 0;               // destinations of the first group that lie before the box
    };

    Line line_of(Range box) const {
        const Rule& rule = rule_;
        if (!gradient)
            return {box.first * rule.stride - rule.before, (box.size() - 1) * rule.stride + rule.window, 0, 0, 0};
        const int64_t group = (box.first + rule.before) / rule.stride, lead = box.first + rule.before - group * rule.stride;
        const int64_t groups = (box.last - 1 + rule.before) / rule.stride - group + 1;
        const int64_t terms = divide_up(rule.window, rule.stride);
        return {group - terms + 1, groups + terms - 1, groups, terms, lead};
    }
    // The longest line of any box.
    int64_t line_room() const {
        const Rule& rule = rule_;
        return gradient ? divide_up(tile_, rule.stride) + divide_up(rule.window, rule.stride) + 1
                        : (tile_ + 1) * rule.stride + rule.window;
    }

    // What a box works on, and a worker's scratch for it.
    struct Rooms {
        Rooms(const Average& job, std::byte* base) : arena(base) {
            const int64_t tile = job.tile_;
            const bool line = job.across_ == Across::line, strided = line && job.rule_.stride > 1;
            row_size = job.columns_ * job.run_;
            line_size = line ? divide_up(job.line_room() * job.run_, 64) * 64 : row_size;
            ring = arena.take<A>((job.apart() ? 1 : job.ring_rows_ * job.planes_) * row_size);
            if (job.apart()) block_row = arena.take<A>(row_size);
            rows = arena.take<A>(kTogether * line_size + (line ? 2 * kLine : 0));
            if (integers) totals = arena.take<A>(tile * job.run_);
            if (job.stream_) staging = arena.take<T>(job.staging_size() + 2 * kLanes<A>);
            width_factors = arena.take<A>(line ? (gradient ? line_size : tile * job.run_) : gradient ? job.columns_ : tile);
            if (!gradient && !integers) width_divisors = arena.take<A>(line ? tile * job.run_ : tile);
            if (strided && !gradient) phases = arena.take<A>(line_size + job.rule_.stride * job.run_);
            if (line && gradient) {
                more = arena.take<T>(line_size + GroupRow<T>::kSlack), fewer = arena.take<T>(line_size + GroupRow<T>::kSlack);
                finished = arena.take<T>(tile * job.run_);
                group_row = GroupRow<T>(arena, job.rule_, job.run_);
            }
            if (!line) spans = arena.take<Span>(tile), total = arena.take<A>(job.run_);
        }
        Arena arena;
        int64_t row_size, line_size;
        A *ring, *block_row = nullptr, *rows, *totals = nullptr, *width_factors, *phases = nullptr, *total = nullptr;
        A* width_divisors = nullptr;
        T *staging = nullptr, *more = nullptr, *fewer = nullptr, *finished = nullptr;
        int64_t ring_last = 0;  // rows of the ring are made up to this height
        Span* spans = nullptr;
        Divisor factors_of{0, 0};  // forward: what width_factors are made for
        bool exact_divisors = false;  // those along width alone, width_divisors, are exact

        Range columns{0, 0}, inner{0, 0};  // of the source, of this box
        Line line;
        GroupRow<T> group_row;
    };
    // Whether windows of one channel are so long that several are summed side by side.
    bool long_windows() const {
        return inner_ == 1 && (across_ == Across::blocks || (across_ == Across::runs && width_.longest() > kLongWindow));
    }
    bool apart() const { return ring_rows_ && height_.longest() > kBlock; }
    // Elements of the buffer for results: two rows at least, so that one leaves while whole lines are kept together.
    int64_t staging_size() const { return tile_ * run_ + 512 / int64_t(sizeof(T)); }

    void compute(const Box& box, std::byte* scratch) const {
        Rooms rooms(*this, scratch);
        Writer<T> writer(static_cast<T*>(call_.destination), rooms.staging, staging_size());
        rooms.inner = box.inner;
        rooms.columns = width_.range(box.width);
        if (across_ == Across::line) prepare_line(rooms, box.width);
        if (across_ == Across::runs || across_ == Across::direct) prepare_runs(rooms, box.width);
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) {
            for (int64_t d = box.depth.first; d < box.depth.last;) {
                const Groups depths = next_groups(depth_, d, box.depth.last, planes_, kBlock);
                d = depths.groups[depths.count - 1].destinations.last;
                rooms.ring_last = 0;
                for (int64_t h = box.height.first; h < box.height.last;) {
                    const Groups heights = next_groups(height_, h, box.height.last, apart() ? 1 : kTogether, ring_rows_ ? ring_rows_ : kBlock);
                    h = heights.groups[heights.count - 1].destinations.last;
                    for (int i = 0; i < depths.count; ++i)
                        if (shifted_ && !depths.all.empty() && !heights.all.empty() && !rooms.columns.empty())
                            emit_shifted(rooms, writer, box, outer, depths, i, heights);
                        else
                            emit(rooms, writer, box, outer, depths, i, heights);
                }
            }
        }
        writer.finish();
    }

    // Destination rows of some neighbouring heights in the planes of one group.
    void emit(Rooms& rooms, Writer<T>& writer, const Box& box, int64_t outer, const Groups& depths, int plane, const Groups& heights) const {
        const bool at_once = across_ == Across::blocks || across_ == Across::direct || ((back_ || three_) && depth_trivial_);
        const bool reduced = (!depth_trivial_ || !height_trivial_) && !at_once;
        const bool nothing = depths.all.empty() || heights.all.empty() || rooms.columns.empty();
        if (reduced && !nothing) reduce(rooms, outer, depths, plane, heights, rooms.columns);
        const int64_t run = box.inner.size();
        for (int j = 0; j < heights.count; ++j) {
            const Source from{outer, depths.groups[plane].range, heights.groups[j].range, rooms.rows + j * rooms.line_size};
            const Range ds = depths.groups[plane].destinations, hs = heights.groups[j].destinations;
            bool first = true;
            for (int64_t d = ds.first; d < ds.last; ++d)
                for (int64_t h = hs.first; h < hs.last; ++h) {
                    const int64_t at = destination_at(outer, d, h, box.width.first) + box.inner.first;
                    Divisor divisor;
                    if constexpr (!gradient) divisor = divisor.times(depth_.axis->divisor(d)).times(height_.axis->divisor(h));
                    T* whole = integers ? reinterpret_cast<T*>(rooms.totals) : run == inner_ && across_ != Across::direct ? writer.row(at, box.width.size() * run) : nullptr;
                    const auto slot = [&](int64_t i) { return whole ? whole + i * run : writer.row(at + i * inner_, run); };
                    if (nothing)
                        for (int64_t i = 0; i < box.width.size(); ++i) std::memset(slot(i), 0, std::size_t(run) * sizeof(T));
                    else if (across_ == Across::direct)
                        direct(rooms, from, box.width, divisor, slot);
                    else if (across_ == Across::runs)
                        runs(rooms, from, box.width, divisor, whole != nullptr, slot);
                    else if (across_ == Across::blocks)
                        blocks(rooms, from, depths, plane, heights, box.width.first, divisor, slot(0));
                    else if constexpr (gradient)
                        line_gradient(rooms, from, box.width, first, ds.size() * hs.size() == 1, whole);
                    else
                        line_forward(rooms, from, box.width, divisor, whole);
                    first = false;
                    if constexpr (integers)
                        finish_integers(rooms.totals, box.width.size(), run, small_, divisor, *width_.axis, box.width.first,
                                        call_.destination_kind,
                                        static_cast<std::byte*>(call_.destination) + at * item_size(call_.destination_kind), inner_);
                }
        }
    }

    // Where a destination row comes from: `row` holds the sums over depth and height unless both are trivial.
    struct Source {
        int64_t outer;
        Range depths, heights;
        A* row;
    };
    const S* source_at(const Rooms& rooms, int64_t outer, int64_t d, int64_t h, int64_t w) const {
        return Sides::source_at<S>(outer, d, h, w) + rooms.inner.first;
    }

    // ---- over all axes at once, inner long ----

    template <class Slot>
    void direct(Rooms& rooms, const Source& from, Range box, Divisor divisor, const Slot& slot) const {
        if constexpr (!gradient) {
            make_divisors(rooms, box, divisor);
            const S* row = source_at(rooms, from.outer, from.depths.first, from.heights.first, rooms.columns.first);
            for (int64_t i = 0; i < box.size(); ++i) {
                const int64_t terms[3] = {from.depths.size(), from.heights.size(), rooms.spans[i].count};
                direct_run(rooms, row + rooms.spans[i].first * inner_, terms, rooms.width_factors[i], slot(i));
            }
        }
    }
    // Terms are read where they lie, four registers of each, column by column: of several runs of one row at once the CPU foresees none.
    POOLGRAD_NOINLINE void direct_run(const Rooms& rooms, const S* source, const int64_t* terms, A divisor, T* to) const {
        constexpr int lanes = kLanes<A>, many = 4 * lanes;
        const int64_t run = rooms.inner.size(), row_pitch = width_.sources() * inner_, plane_pitch = height_.sources() * row_pitch;
        const int64_t planes = terms[0], rows = terms[1], columns = terms[2];
        A* const so_far = rooms.rows;
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
                    const S* term = source + at + x * inner_ + y * row_pitch;
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

    // ---- along width, inner long ----

    void prepare_runs(Rooms& rooms, Range box) const {
        fill_weights<A>(width_, rooms.columns.first, rooms.columns.size(), rooms.width_factors);
        for (int64_t i = 0; i < box.size(); ++i) {
            const Range range = width_.range(box.first + i);
            rooms.spans[i] = {int32_t(range.first - rooms.columns.first), int32_t(range.size())};
        }
    }

    // width_factors <- the divisors of a box's columns for this one of the other axes, each `times`.
    POOLGRAD_INLINE void make_divisors(Rooms& rooms, Range box, Divisor divisor, int64_t times = 1) const {
        if constexpr (!gradient && !integers)
            if (!(rooms.factors_of == divisor)) make_other_divisors(rooms, box, divisor, times);
    }
    POOLGRAD_NOINLINE void make_other_divisors(Rooms& rooms, Range box, Divisor divisor, int64_t times) const {
        if constexpr (!gradient && !integers) {
            // A product of numbers that are exact is rounded once, as the exact product is.
            constexpr int64_t kExact = 1 << 24;
            if (rooms.factors_of.exact == 0) {
                rooms.exact_divisors = true;
                for (int64_t i = 0; i < box.size(); ++i) {
                    const int64_t by = width_.axis->divisor(box.first + i);
                    rooms.exact_divisors = rooms.exact_divisors && by <= kExact;
                    std::fill_n(rooms.width_divisors + i * times, times, A(by));
                }
            }
            rooms.factors_of = divisor;
            if (rooms.exact_divisors && divisor.exact <= kExact) {
                const A by = A(divisor.exact);
                each_column<A>(box.size() * times, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
                    constexpr int lanes = decltype(lanes_of)::value;
                    store<A, lanes>(rooms.width_factors + at, load<A, lanes>(rooms.width_divisors + at) * by);
                });
                return;
            }
            for (int64_t i = 0; i < box.size(); ++i)
                std::fill_n(rooms.width_factors + i * times, times, divisor.times(width_.axis->divisor(box.first + i)).template as<A>());
        }
    }

    // The gradient of windows of 3 by 2: every column of the source is read once, four registers of it, and makes an input that lies in
    // two windows and one that lies in one. Columns are sums of one or two rows.
    template <int rows, class From>
    POOLGRAD_NOINLINE void back_runs(const Rooms& rooms, const From* const* from, const A* weights, Range box, T* to) const {
        constexpr int lanes = kLanes<A>;
        const int64_t run = inner_, group = (box.first + rule_.before) / 2, lead = box.first + rule_.before - 2 * group;
        const auto part = [&](auto registers, int64_t at) POOLGRAD_LAMBDA {
            Vector<A, lanes> before[registers()], now[registers()];
            const auto read = [&](int64_t q) POOLGRAD_LAMBDA {
                const bool there = q >= rooms.columns.first && q < rooms.columns.last;
                const int64_t first = there ? (q - rooms.columns.first) * run + at : 0;
                for (int u = 0; u < registers(); ++u) {
                    if (!there) {
                        now[u] = spread<A, lanes>(A(-0.0));
                        continue;
                    }
                    auto sum = load<A, lanes>(from[0] + first + u * lanes) * weights[0];
                    if constexpr (rows == 2) sum = sum + load<A, lanes>(from[1] + first + u * lanes) * weights[1];
                    now[u] = sum * rooms.width_factors[q - rooms.columns.first];
                }
            };
            read(group - 1);
            T* result = to + at;
            for (int64_t i = 0, q = group; i < box.size(); ++q) {
                for (int u = 0; u < registers(); ++u) before[u] = now[u];
                read(q);
                if (i || !lead) {
                    for (int u = 0; u < registers(); ++u) store<A, lanes>(result + u * lanes, before[u] + now[u]);
                    result += run, ++i;
                }
                if (i < box.size()) {
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
    // make a result.
    template <int rows, int stride, class From>
    POOLGRAD_NOINLINE void three_runs(const Rooms& rooms, const From* const* from, const A* weights, int64_t ahead, Range box,
                                      T* to) const {
        constexpr int lanes = kLanes<A>;
        const int64_t run = inner_, first = line_of(box).first;
        const auto part = [&](auto registers, int64_t at) POOLGRAD_LAMBDA {
            using Cell = Vector<A, lanes>;
            const auto read = [&](Cell* column, int64_t q) POOLGRAD_LAMBDA {
                const bool there = q >= rooms.columns.first && q < rooms.columns.last;
                const int64_t first = there ? (q - rooms.columns.first) * run + at : 0;
                // What the next row of results will read: the CPU does not foresee parts of rows.
                const From* below = from[rows - 1] + first;
                for (int i = 1; i <= stride; ++i)
                    for (int u = 0; u < registers() * lanes; u += 64 / int(sizeof(From))) __builtin_prefetch(below + i * ahead + u, 0, 2);
                for (int u = 0; u < registers(); ++u) {
                    if (!there) {
                        column[u] = spread<A, lanes>(A(-0.0));
                        continue;
                    }
                    const auto term = [&](int i) POOLGRAD_LAMBDA {
                        const auto value = load<A, lanes>(from[i] + first + u * lanes);
                        return gradient ? value * weights[i] : value;
                    };
                    auto sum = term(0);
                    for (int i = 1; i < rows; ++i) sum = sum + term(i);
                    column[u] = gradient ? sum * rooms.width_factors[q - rooms.columns.first] : sum;
                }
            };
            Cell before[registers()], now[registers()], next[registers()];
            read(before, first);
            if constexpr (stride == 1) read(now, first + 1);
            for (int64_t i = 0; i < box.size(); ++i) {
                if constexpr (stride == 2) read(now, first + 2 * i + 1);
                read(next, first + stride * i + 2);
                for (int u = 0; u < registers(); ++u) {
                    auto sum = before[u] + now[u] + next[u];
                    if constexpr (!gradient) sum = sum / spread<A, lanes>(rooms.width_factors[i]);
                    store<A, lanes>(to + i * run + at + u * lanes, sum);
                    before[u] = stride == 1 ? now[u] : next[u], now[u] = next[u];
                }
            }
        };
        int64_t at = 0;
        for (; at + 4 * lanes <= run; at += 4 * lanes) part(Constant<4>(), at);
        for (; at < run; at += lanes) part(Constant<1>(), std::min(at, run - lanes));
    }
    // The windows of 3 that have code of their own.
    void special_runs(const Rooms& rooms, const Source& from, Range box, T* to) const {
        if constexpr (!integers) {
            A weights[3] = {A(1), A(1), A(1)};
            const int64_t pitch = width_.sources() * inner_;
            const auto make = [&](auto rows, const auto* const* sources) {
                const int64_t ahead = depth_trivial_ ? pitch : 0;
                if (rule_.stride == 1) return three_runs<rows(), 1>(rooms, sources, weights, ahead, box, to);
                if constexpr (!gradient)
                    three_runs<rows(), 2>(rooms, sources, weights, ahead, box, to);
                else if constexpr (rows() <= 2)
                    back_runs<rows()>(rooms, sources, weights, box, to);
            };
            const A* row = from.row;
            if (!depth_trivial_) return make(Constant<1>(), &row);
            fill_weights<A>(height_, from.heights.first, from.heights.size(), weights);
            const S* first = source_at(rooms, from.outer, from.depths.first, from.heights.first, rooms.columns.first);
            const S* sources[3] = {first, first + pitch, first + 2 * pitch};
            if (from.heights.size() == 1)
                make(Constant<1>(), sources);
            else if (from.heights.size() == 2)
                make(Constant<2>(), sources);
            else
                make(Constant<3>(), sources);
        }
    }

    template <class Slot>
    void runs(Rooms& rooms, const Source& from, Range box, Divisor divisor, bool joined, const Slot& slot) const {
        make_divisors(rooms, box, divisor);
        if (back_ || three_) return special_runs(rooms, from, box, slot(0));
        if constexpr (!gradient && !integers)
            if (long_windows()) {
                T* to = slot(0);
                if (depth_trivial_ && height_trivial_)
                    return windows_of(rooms, source_at(rooms, from.outer, from.depths.first, from.heights.first, rooms.columns.first), box.size(), to);
                return windows_of(rooms, static_cast<const A*>(from.row), box.size(), to);
            }
        if (depth_trivial_ && height_trivial_)
            runs_of<T>(rooms, PitchRows<S>{source_at(rooms, from.outer, from.depths.first, from.heights.first, rooms.columns.first), inner_},
                    box.size(), joined, slot);
        else
            runs_of<T>(rooms, PitchRows<A>{from.row, rooms.inner.size()}, box.size(), joined, slot);
    }

    template <class To, class Rows, class Slot>
    POOLGRAD_NOINLINE void runs_of(Rooms& rooms, const Rows& rows, int64_t count, bool joined, const Slot& slot) const {
        const int64_t run = rooms.inner.size();
        for (int64_t i = 0; i < count;) {
            const Span span = rooms.spans[i];
            if (span.count <= 0 || span.count > kBlock) {
                To* to = slot(i);
                if (span.count <= 0)
                    std::memset(to, 0, std::size_t(run) * sizeof(To));
                else
                    long_run(rooms, rows, span, to, rooms.width_factors + (gradient ? span.first : i));
                ++i;
                continue;
            }
            int together = 1;
            while (joined && together < kTogether && i + together < count && rooms.spans[i + together].count > 0 &&
                   rooms.spans[i + together].count <= kBlock)
                ++together;
            To* to = slot(i);
            if constexpr (gradient || integers) {
                const StoreSink<A, To> sinks[kTogether] = {{to}, {to + run}, {to + 2 * run}, {to + 3 * run}};
                sum_spans<gradient>(rows, rooms.width_factors, rooms.spans + i, together, run, sinks);
            } else {
                const A* by = rooms.width_factors + i;
                DivideSink<A, To> sinks[kTogether];
                for (int j = 0; j < together; ++j) sinks[j] = {to + j * run, by[j]};
                sum_spans<gradient>(rows, by, rooms.spans + i, together, run, sinks);
            }
            i += together;
        }
    }

    // The same forward where inner is 1 and windows are long: up to kPlanes of one length side by side.
    template <class From>
    POOLGRAD_NOINLINE void windows_of(Rooms& rooms, const From* row, int64_t count, T* to) const {
        for (int64_t i = 0; i < count;) {
            const Span span = rooms.spans[i];
            int64_t alike = 1;
            while (alike < std::min<int64_t>(kPlanes<A>, count - i) && rooms.spans[i + alike].count == span.count) ++alike;
            if (span.count <= 0 || alike == 1) {
                if (span.count <= 0)
                    std::memset(to + i, 0, sizeof(T));
                else
                    long_run(rooms, PitchRows<From>{row, 1}, span, to + i, rooms.width_factors + i);
                ++i;
                continue;
            }
            A totals[kPlanes<A>];
            const auto start = [&](int64_t p) { return row + rooms.spans[i + std::min(p, alike - 1)].first; };
            if (const int64_t next = i + alike; next < count)
                fetch(row + rooms.spans[next - 1].last(), rooms.spans[std::min(next + alike, count) - 1].last() - rooms.spans[next - 1].last());
            for (int64_t first = 0; first < span.count; first += kBlock)
                sum_beside([&](int64_t p) { return start(p) + first; }, std::min(kBlock, span.count - first), totals, first != 0);
            sum_rows<false>(PitchRows<A>{totals, 0}, totals, 1, alike, DivideRowSink<A, T>{to + i, rooms.width_factors + i});
            i += alike;
        }
    }
    // totals <- (or are added) the sums of `count` elements from each of kPlanes starts on.
    template <class Start>
    POOLGRAD_INLINE static void sum_beside(const Start& start, int64_t count, A* totals, bool add) {
        std::decay_t<decltype(start(0))> from[kPlanes<A>];
        for (int64_t p = 0; p < kPlanes<A>; ++p) from[p] = start(p);
        sum_along_planes<A>(totals, from, count, add);
    }
    // total <- the sum of a block each, kPlanes at a time, of a long window whose inner run is 1. Returns how many elements were taken.
    template <class From>
    POOLGRAD_NOINLINE static int64_t sum_blocks(const From* from, int64_t count, A& total) {
        int64_t first = 0;
        for (; first + kPlanes<A> * kBlock <= count; first += kPlanes<A> * kBlock) {
            A sums[kPlanes<A>];
            sum_beside([&](int64_t p) { return from + first + p * kBlock; }, kBlock, sums, false);
            for (int64_t p = 0; p < kPlanes<A>; ++p) total = first || p ? total + sums[p] : sums[p];
        }
        return first;
    }

    // One destination from more rows than a block; `factors` are their weights in a gradient, else the divisor.
    template <class Rows, class To>
    void long_run(Rooms& rooms, const Rows& rows, Span span, To* to, const A* factors) const {
        int32_t first = 0;
        if constexpr (!gradient && !integers)
            if (long_windows()) first = int32_t(sum_blocks(rows(span.first), span.count, *rooms.total));
        for (; first < span.count; first += int32_t(kBlock))
            add_block(Rows{rows(span.first + first), rows.pitch}, factors + (gradient ? first : 0),
                      std::min<int64_t>(kBlock, span.count - first), rooms.inner.size(), rooms.total, first != 0);
        finish(rooms.total, rooms.inner.size(), *factors, to);
    }
    template <class Rows>
    POOLGRAD_NOINLINE void add_block(const Rows& rows, const A* weights, int64_t count, int64_t length, A* to, bool add) const {
        if (add)
            sum_rows<gradient>(rows, weights, count, length, AddSink<A>{to});
        else
            sum_rows<gradient>(rows, weights, count, length, StoreSink<A, A>{to});
    }
    template <class To>
    POOLGRAD_NOINLINE void finish(const A* total, int64_t run, A divisor, To* to) const {
        if constexpr (gradient || integers)
            sum_rows<false>(PitchRows<A>{total, 0}, total, 1, run, StoreSink<A, To>{to});
        else
            sum_rows<false>(PitchRows<A>{total, 0}, total, 1, run, DivideSink<A, To>{to, divisor});
    }

    // ---- along width, one range longer than a row of scratch ----

    void blocks(Rooms& rooms, const Source& from, const Groups& depths, int plane, const Groups& heights, int64_t w, Divisor divisor,
                T* to) const {
        const Range range = width_.range(w);
        const int64_t run = rooms.inner.size();
        A weights[kBlock];
        int64_t first = range.first;
        if constexpr (!gradient && !integers)
            if (long_windows() && depth_trivial_ && height_trivial_)
                first += sum_blocks(source_at(rooms, from.outer, from.depths.first, from.heights.first, first), range.size(), *rooms.total);
        for (; first < range.last; first += kBlock) {
            const Range columns{first, std::min(first + kBlock, range.last)};
            fill_weights<A>(width_, first, columns.size(), weights);
            if (depth_trivial_ && height_trivial_) {
                add_block(PitchRows<S>{source_at(rooms, from.outer, from.depths.first, from.heights.first, first), inner_}, weights,
                          columns.size(), run, rooms.total, first != range.first);
            } else {
                rooms.ring_last = 0;
                reduce(rooms, from.outer, depths, plane, heights, columns);
                add_block(PitchRows<A>{from.row, run}, weights, columns.size(), run, rooms.total, first != range.first);
            }
        }
        finish(rooms.total, run, gradient ? A(1) : divisor.times(width_.axis->divisor(w)).template as<A>(), to);
    }

    // ---- along width, inner short ----

    void prepare_line(Rooms& rooms, Range box) const {
        const Line line = rooms.line = line_of(box);
        if (gradient) rooms.group_row.prepare(line.lead);
        rooms.columns = {std::max<int64_t>(0, line.first), std::min(width_.sources(), line.first + line.length)};
        rooms.rows += (kLine - (rooms.columns.first - line.first) * inner_ % kLine) % kLine;  // so that inside() begins a line of the cache
        for (int j = 0; j < kTogether; ++j) std::fill_n(rooms.rows + j * rooms.line_size, line.length * inner_, A(-0.0));
        if constexpr (gradient)
            for (int64_t i = 0; i < rooms.columns.size(); ++i)
                std::fill_n(rooms.width_factors + i * inner_, inner_, A(1) / A(width_.axis->divisor(rooms.columns.first + i)));
    }

    // The source's part of a line.
    A* inside(const Rooms& rooms, A* row) const {
        return across_ == Across::line ? row + (rooms.columns.first - rooms.line.first) * inner_ : row;
    }
    void fill_line(const Rooms& rooms, const Source& from) const {
        if (!depth_trivial_ || !height_trivial_) return;
        A* to = inside(rooms, from.row);
        const PitchRows<S> row{source_at(rooms, from.outer, from.depths.first, from.heights.first, rooms.columns.first), 0};
        if constexpr (gradient)
            sum_rows<false, A>(row, to, 1, rooms.columns.size() * inner_, ScaleSink<A>{to, rooms.width_factors});
        else
            sum_rows<false, A>(row, to, 1, rooms.columns.size() * inner_, StoreSink<A, A>{to});
    }

    // sink <- the sums of this many neighbouring columns of a line.
    template <class Sink>
    POOLGRAD_INLINE void sum_steps(const A* line, int64_t count, int64_t length, const Sink& sink) const {
        if (inner_ == 1)
            sum_neighbours(line, count, length, sink);
        else
            sum_line(line, inner_, count, length, sink);
    }

    // result <- the sums of `terms` sources that end at each group.
    void sum_covers(const Line& line, const A* row, int64_t terms, T* result) const {
        // Groups from here on are past the last output: nothing covers them.
        const int64_t end = width_.sources() + terms - line.first - line.terms;
        const int64_t covered = terms ? std::clamp<int64_t>(end, 0, line.groups) : 0;
        if (covered) sum_steps(row + (line.terms - terms) * inner_, terms, covered * inner_, StoreSink<A, T>{result});
        if (covered < line.groups) std::memset(result + covered * inner_, 0, std::size_t((line.groups - covered) * inner_) * sizeof(T));
    }

    // Destination rows as emit() makes them, of lines with stride 1: rows may be short, and this asks little for each.
    POOLGRAD_NOINLINE void emit_shifted(Rooms& rooms, Writer<T>& writer, const Box& box, int64_t outer, const Groups& depths, int plane,
                                        const Groups& heights) const {
        if constexpr (!integers) {
            if (!depth_trivial_ || !height_trivial_) reduce(rooms, outer, depths, plane, heights, rooms.columns);
            const int64_t length = box.width.size() * inner_, pitch = width_.destinations() * inner_;
            const Range ds = depths.groups[plane].destinations;
            for (int j = 0; j < heights.count; ++j) {
                A* row = rooms.rows + j * rooms.line_size;
                const Range hs = heights.groups[j].destinations;
                fill_line(rooms, {outer, depths.groups[plane].range, heights.groups[j].range, row});
                for (int64_t d = ds.first; d < ds.last; ++d) {
                    const Divisor by = gradient ? Divisor() : Divisor().times(depth_.axis->divisor(d));
                    const int64_t first_row = (outer * depth_.destinations() + d) * height_.destinations() + hs.first;
                    int64_t at = first_row * pitch + box.width.first * inner_;
                    for (int64_t h = hs.first; h < hs.last; ++h, at += pitch) {
                        T* to = writer.row(at, length);
                        if constexpr (gradient) {
                            sum_covers(rooms.line, row, rooms.line.terms, to);
                        } else {
                            make_divisors(rooms, box.width, by.times(height_.axis->divisor(h)), inner_);
                            sum_steps(row, rule_.window, length, DivideRowSink<A, T>{to, rooms.width_factors});
                        }
                    }
                }
            }
        }
    }

    void line_forward(Rooms& rooms, const Source& from, Range box, Divisor divisor, T* to) const {
        const int64_t stride = rule_.stride, window = rule_.window;
        const int64_t length = box.size() * inner_;
        fill_line(rooms, from);
        if constexpr (!integers) make_divisors(rooms, box, divisor, inner_);
        const auto sum_all = [&](const auto& rows) {
            if constexpr (integers)
                sum_rows<false, A>(rows, from.row, window, length, StoreSink<A, T>{to});
            else
                sum_rows<false, A>(rows, from.row, window, length, DivideRowSink<A, T>{to, rooms.width_factors});
        };
        if (stride == 1) return sum_all(PitchRows<A>{from.row, inner_});
        // Phase r holds every stride-th element from the r-th on; term t of all windows is phase t % stride, shifted by t / stride.
        const A *starts[kBlock], *rows[kBlock];
        A* phase = rooms.phases;
        for (int64_t r = 0; r < std::min(stride, window); ++r) {
            const int64_t count = box.size() + (window - 1 - r) / stride;
            take_strided(phase, from.row + r * inner_, count, stride, inner_);
            starts[r] = phase;
            phase += count * inner_;
        }
        for (int64_t t = 0; t < window; ++t) rows[t] = starts[t % stride] + t / stride * inner_;
        sum_all(PointerRows<A>{rows});
    }

    // Destinations i with i + before = q * stride + r form group q. Those with r < window % stride sum `terms` sources that end at q, the
    // others one less. Rows of the same source are the same: all but an only one are kept for the next.
    void line_gradient(Rooms& rooms, const Source& from, Range box, bool first, bool only, T* to) const {
        const Rule& rule = rule_;
        const Line& line = rooms.line;
        const std::size_t bytes = std::size_t(box.size() * inner_) * sizeof(T);
        if (!first) {
            std::memcpy(to, rooms.finished, bytes);
            return;
        }
        fill_line(rooms, from);
        const auto sum_groups = [&](int64_t terms, T* result) { sum_covers(line, from.row, terms, result); };
        sum_groups(line.terms, rooms.more);
        if (rule.window % rule.stride) sum_groups(line.terms - 1, rooms.fewer);
        rooms.group_row.lay(only ? to : rooms.finished, rooms.more, rooms.fewer, box.size());
        if (!only) std::memcpy(to, rooms.finished, bytes);
    }

    // ---- over depth and height ----

    // rooms.rows <- the sums over depth and height of some columns, [column][inner], one row for each group of heights; a line of a
    // gradient also gets its weights along width.
    void reduce(Rooms& rooms, int64_t outer, const Groups& depths, int plane, const Groups& heights, Range columns) const {
        A* rows[kTogether];
        for (int j = 0; j < kTogether; ++j) rows[j] = inside(rooms, rooms.rows + j * rooms.line_size);
        const A* factors = gradient && across_ == Across::line ? rooms.width_factors : nullptr;
        if (depth_trivial_)
            sum_source(rooms, outer, depths.all.first, heights.all.first, height_, heights, columns, rows, factors);
        else if (height_trivial_)
            for (int j = 0; j < heights.count; ++j) {
                Groups one = depths;
                one.count = 1, one.groups[0] = depths.groups[plane], one.all = one.groups[0].range;
                sum_source(rooms, outer, one.all.first, heights.groups[j].range.first, depth_, one, columns, rows + j, factors);
            }
        else if (apart())
            sum_apart(rooms, outer, depths, heights.all, columns, rows[0], factors);
        else
            sum_ring(rooms, outer, depths, plane, heights, columns, rows, factors);
    }

    // to[j] + at <- the sum of the rows of the j-th group, times the factors if there are any; row 0 is the first of all groups.
    template <class Rows>
    POOLGRAD_NOINLINE void sum_each(const Rows& rows, const A* weights, const Groups& groups, int64_t length, A* const* to, int64_t at,
                                    const A* factors) const {
        Span spans[kTogether];
        StoreSink<A, A> sinks[kTogether];
        ScaleSink<A> scaled[kTogether];
        for (int j = 0; j < groups.count; ++j) {
            spans[j] = {int32_t(groups.groups[j].range.first - groups.all.first), int32_t(groups.groups[j].range.size())};
            sinks[j] = {to[j] + at}, scaled[j] = {to[j] + at, factors};
        }
        if constexpr (gradient)
            if (factors) return sum_spans<gradient>(rows, weights, spans, groups.count, length, scaled);
        if constexpr (!gradient)
            if (groups.count == 1 && spans[0].count > 24) return sum_span<gradient, true>(rows, weights, spans[0], length, sinks[0]);
        sum_spans<gradient>(rows, weights, spans, groups.count, length, sinks);
    }

    // to[j] <- the sum along depth or height of the source over the j-th range.
    POOLGRAD_NOINLINE void sum_source(Rooms& rooms, int64_t outer, int64_t d, int64_t h, const Side& side, const Groups& groups, Range columns,
                    A* const* to, const A* factors, int64_t together = 1) const {
        const int64_t pitch = width_.sources() * inner_ * (&side == &depth_ ? height_.sources() : 1);
        const int64_t run = rooms.inner.size();
        const bool joined = run == inner_;  // whole runs lie side by side
        const int64_t pieces = joined ? 1 : columns.size(), length = joined ? columns.size() * run * together : run;
        const S* base = source_at(rooms, outer, d, h, columns.first);
        A weights[kBlock];
        if (groups.all.size() <= kBlock) {
            fill_weights<A>(side, groups.all.first, groups.all.size(), weights);
            for (int64_t i = 0; i < pieces; ++i) sum_each(PitchRows<S>{base + i * inner_, pitch}, weights, groups, length, to, i * run, factors);
            return;
        }
        for (int64_t first = 0; first < groups.all.size(); first += kBlock) {
            const int64_t count = std::min(kBlock, groups.all.size() - first);
            fill_weights<A>(side, groups.all.first + first, count, weights);
            for (int64_t i = 0; i < pieces; ++i)
                add_block(PitchRows<S>{base + first * pitch + i * inner_, pitch}, weights, count, length, to[0] + i * run, first != 0);
        }
        if (factors) scale_row(to[0], factors, length);
    }

    // Over depth into rings of rows, one ring for each plane and one row for each source height, then over height.
    POOLGRAD_NOINLINE void sum_ring(Rooms& rooms, int64_t outer, const Groups& depths, int plane, const Groups& heights, Range columns, A* const* to,
                                    const A* factors) const {
        const int64_t length = columns.size() * rooms.inner.size();
        const auto row = [&](int64_t i, int64_t slot) { return rooms.ring + (i * ring_rows_ + slot) * rooms.row_size; };
        const A* rows[kBlock];
        const int64_t begin = heights.all.first % ring_rows_, split = heights.all.first + ring_rows_ - begin;  // where the ring begins anew
        const auto slot_of = [&](int64_t h) { return h < split ? begin + h - heights.all.first : h - split; };
        const bool whole_rows = rooms.inner.size() == inner_ && columns.size() == width_.sources() && length == rooms.row_size;
        for (int64_t h = std::max(rooms.ring_last, heights.all.first); h < heights.all.last;) {
            // Rows that lie side by side on both sides are made at once.
            const int64_t count = whole_rows ? (h < split ? std::min(split, heights.all.last) : heights.all.last) - h : 1;
            A* sums[kTogether];
            for (int i = 0; i < depths.count; ++i) sums[i] = row(i, slot_of(h));
            sum_source(rooms, outer, depths.all.first, h, depth_, depths, columns, sums, nullptr, count);
            rooms.ring_last = h += count;
        }
        for (int64_t h = heights.all.first; h < heights.all.last; ++h) rows[h - heights.all.first] = row(plane, slot_of(h));
        A weights[kBlock];
        fill_weights<A>(height_, heights.all.first, heights.all.size(), weights);
        sum_each(PointerRows<A>{rows}, weights, heights, length, to, 0, factors);
    }

    // The same where a range of heights has too many rows for a ring: each row is made when needed and added at once.
    void sum_apart(Rooms& rooms, int64_t outer, const Groups& depths, Range heights, Range columns, A* to, const A* factors) const {
        const int64_t length = columns.size() * rooms.inner.size();
        A weight[1] = {A(1)};
        for (int64_t h = heights.first; h < heights.last; ++h) {
            sum_source(rooms, outer, depths.all.first, h, depth_, depths, columns, &rooms.ring, nullptr);
            const int64_t in_block = (h - heights.first) % kBlock;
            fill_weights<A>(height_, h, 1, weight);
            add_block(PitchRows<A>{rooms.ring, 0}, weight, 1, length, rooms.block_row, in_block != 0);
            if (in_block != kBlock - 1 && h != heights.last - 1) continue;
            if (h - heights.first >= kBlock)
                sum_rows<false>(PitchRows<A>{rooms.block_row, 0}, weight, 1, length, AddSink<A>{to});
            else
                sum_rows<false>(PitchRows<A>{rooms.block_row, 0}, weight, 1, length, StoreSink<A, A>{to});
        }
        if (factors) scale_row(to, factors, length);
    }

    const bool depth_trivial_, height_trivial_;
    const bool regular_;  // width has a rule
    Across across_ = Across::runs;
    bool stream_ = false;
    bool small_ = false;         // sums of integers are divided in float
    bool shifted_ = false;       // lines with stride 1
    bool back_ = false;          // a gradient of windows of 3 by 2, inner long
    bool three_ = false;         // windows of 3 by 1, forward also by 2, inner long
    int planes_ = 1;         // destination planes made together
    int64_t ring_rows_ = 0;  // of sums over depth, for each of these; 0 when depth or height has nothing to sum
    int64_t run_ = 1;        // inner elements of a box
    int64_t columns_ = 1;    // source columns of a box, at most
    int64_t tile_ = 1;       // destination columns of a box, at most
};

}  // namespace poolgrad::POOLGRAD_ISA
