// Averages and their gradients: one separable driver for both.
// Order of the numbers (same bits whatever the tiling): sums over depth, then height, then width, each ascending from the range's
// own start, first term assigned, in blocks of 256; forward one true division at the end, in a gradient each term times 1/divisor of
// its axis in that axis's pass. Lanes of a vector are different destinations, never terms of one sum.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// S stored, A accumulated. Integers end as sums in A and are finished row by row (finish_integers).
template <class S, class A, bool gradient>
class Average : AveragePlan {
    static constexpr bool integers = std::is_integral_v<A>;
    using T = std::conditional_t<integers, A, S>;

  public:
    explicit Average(const AverageCall& call) : AveragePlan(call, gradient, Type<S>(), Type<A>()) {}

    void run() {
        Tiling tiling{destinations(), {}};
        if (tiling.empty()) return;
        const int64_t result_bytes = tiling.elements() * item_size(call_.destination_kind);
        // In doubles: of sources that are empty the other sizes may be anything.
        double read = double(sizeof(S));
        for (int64_t size : {call_.layout.outer, depth_.sources(), height_.sources(), width_.sources(), inner_}) read *= double(size);
        const int64_t traffic = int64_t(std::min(read, 0x1p60)) + result_bytes;
        if constexpr (gradient && !integers)
            if (PickedFill<S, A> fill(call_); fill.usable()) return fill.run(traffic);
        if constexpr (gradient)
            if (Fill<S, A> fill(call_); fill.usable()) return fill.run(traffic);
        if constexpr (!gradient && !integers)
            if (GlobalAverage<S, A> global(call_); global.usable()) return global.run(traffic);
        if constexpr (!integers)
            if (NarrowPlanes<S, A, gradient> narrow(call_); narrow.usable()) return narrow.run(traffic);
        if constexpr (!gradient && !integers)
            if (PartAverages<S, A> parts(call_); parts.usable(true)) return parts.run(traffic);
        if constexpr (gradient && !integers)
            if (PickedCovers<S, A> covers(call_); covers.usable()) return covers.run(traffic);
        if constexpr (!integers)
            if (SmallWindows<S, A, gradient> small(call_); small.usable()) return small.run(traffic);
        if constexpr (!gradient && !integers)
            if (PartAverages<S, A> parts(call_); parts.usable(false)) return parts.run(traffic);
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
        const Rooms measure(*this, nullptr, {0, 0});
        run_boxes(tiling, call_.workers, traffic, measure.arena.used(),
                  [this](const Box& box, std::byte* scratch) { compute(box, scratch); });
    }

  private:
    // What a box works on, and a worker's scratch for it.
    struct Rooms {
        Rooms(const Average& job, std::byte* base, Range box_inner)
            : arena(base), inner(box_inner), row_size(job.row_size()),
              down(job, arena, row_size, inner) {
            const int64_t tile = job.tile_, run = job.run_;
            const bool is_line = job.across_ == Across::line;
            if (is_line) row_size = Line<A, T, gradient>::size(job.rule_, run, tile);
            rows = arena.take<A>(kTogether * row_size + (is_line ? Line<A, T, gradient>::kSlack : 0));
            if (integers) totals = arena.take<T>(tile * run);
            if (job.stream_) staging = arena.take<T>(job.staging_size() + 2 * kLanes<A>);
            factors = arena.take<A>(is_line ? (gradient ? row_size : tile * run) : gradient ? job.columns_ : tile);
            if (!gradient && !integers) divisors.products = factors, divisors.along_width = arena.take<A>(is_line ? tile * run : tile);
            if (is_line) line = Line<A, T, gradient>(arena, job.rule_, run, tile);
            if (!is_line) runs = {arena.take<Span>(tile), arena.take<A>(run), factors, inner.size(), job.long_windows()};
        }
        Arena arena;
        const Range inner;     // of this box
        Range columns{0, 0};   // of the source, of this box
        int64_t row_size;      // from row to row of `rows`
        DownSums<S, A, gradient> down;
        A *rows, *factors;     // factors: along width, in a gradient the weights of sources, else the divisors of destinations
        T *totals = nullptr, *staging = nullptr;
        RowDivisors<A> divisors;
        Line<A, T, gradient> line;
        Runs<A, gradient> runs;
    };
    // Elements of a row of sums: direct ones have only a run of them.
    int64_t row_size() const { return in_place() && long_windows() ? 0 : across_ == Across::direct ? run_ : columns_ * run_; }
    // Elements of the buffer for results: a row and some lines, so that whole lines are kept together; direct ones come run by run.
    int64_t staging_size() const {
        const int64_t row = across_ == Across::direct ? std::min(tile_ * run_, std::max(run_, kStaged)) : tile_ * run_;
        return row + 512 / int64_t(sizeof(T));
    }
    static constexpr int64_t kStaged = 1024;  // elements of runs that are stored at once

    void compute(const Box& box, std::byte* scratch) const {
        Rooms rooms(*this, scratch, box.inner);
        Writer<T> writer(static_cast<T*>(call_.destination), rooms.staging, staging_size());
        rooms.columns = width_.range(box.width);
        if (across_ == Across::line) prepare_line(rooms, box.width);
        if (across_ == Across::runs || across_ == Across::direct) prepare_runs(rooms, box.width);
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) {
            for (int64_t d = box.depth.first; d < box.depth.last;) {
                const Groups depths = next_groups(depth_, d, box.depth.last, planes_, kBlock);
                d = depths.groups[depths.count - 1].destinations.last;
                rooms.down.restart();
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
    void prepare_line(Rooms& rooms, Range box) const {
        rooms.rows = rooms.line.prepare(box, rooms.rows, rooms.row_size);
        rooms.columns = rooms.line.columns();
        if constexpr (gradient)
            for (int64_t i = 0; i < rooms.columns.size(); ++i)
                std::fill_n(rooms.factors + i * inner_, inner_, A(1) / A(width_.axis->divisor(rooms.columns.first + i)));
    }
    void prepare_runs(Rooms& rooms, Range box) const {
        fill_weights<A>(width_, rooms.columns.first, rooms.columns.size(), rooms.factors);
        for (int64_t i = 0; i < box.size(); ++i) {
            const Range range = width_.range(box.first + i);
            rooms.runs.spans[i] = {int32_t(range.first - rooms.columns.first), int32_t(range.size())};
        }
    }

    // Where a destination row comes from: `row` holds the sums over depth and height unless both are trivial.
    struct Source {
        int64_t outer;
        Range depths, heights;
        A* row;
    };
    const S* source_at(const Rooms& rooms, const Source& from, int64_t w) const {
        return Sides::source_at<S>(from.outer, from.depths.first, from.heights.first, w) + rooms.inner.first;
    }
    // rooms.factors <- the divisors of a box's columns for this one of the other axes, each `times`.
    POOLGRAD_INLINE void make_divisors(Rooms& rooms, Range box, Divisor divisor, int64_t times = 1) const {
        if constexpr (!gradient && !integers) rooms.divisors.make(*width_.axis, box, divisor, times);
    }
    // rooms.rows <- the sums over depth and height of some columns, one row for each group of heights; a line of a gradient also gets its
    // weights along width.
    void reduce(Rooms& rooms, int64_t outer, const Groups& depths, int plane, const Groups& heights, Range columns) const {
        const bool is_line = across_ == Across::line;
        rooms.down.sum(outer, depths, plane, heights, columns, is_line ? rooms.line.inside(rooms.rows) : rooms.rows, rooms.row_size,
                       gradient && is_line ? rooms.factors : nullptr);
    }

    // Destination rows of some neighbouring heights in the planes of one group.
    void emit(Rooms& rooms, Writer<T>& writer, const Box& box, int64_t outer, const Groups& depths, int plane, const Groups& heights) const {
        const bool at_once = across_ == Across::blocks || across_ == Across::direct || back_ || (three_ && depth_trivial_);
        const bool reduced = (!depth_trivial_ || !height_trivial_) && !at_once;
        const bool nothing = depths.all.empty() || heights.all.empty() || rooms.columns.empty();
        if (reduced && !nothing) reduce(rooms, outer, depths, plane, heights, rooms.columns);
        const int64_t run = box.inner.size();
        for (int j = 0; j < heights.count; ++j) {
            const Source from{outer, depths.groups[plane].range, heights.groups[j].range, rooms.rows + j * rooms.row_size};
            const Range ds = depths.groups[plane].destinations, hs = heights.groups[j].destinations;
            bool first = true;
            for (int64_t d = ds.first; d < ds.last; ++d)
                for (int64_t h = hs.first; h < hs.last; ++h) {
                    const int64_t at = destination_at(outer, d, h, box.width.first) + box.inner.first;
                    Divisor divisor;
                    if constexpr (!gradient) divisor = divisor.times(depth_.axis->divisor(d)).times(height_.axis->divisor(h));
                    const bool joined = run == inner_ && across_ != Across::direct;
                    T* whole = integers ? rooms.totals : joined ? writer.row(at, box.width.size() * run) : nullptr;
                    const auto slot = [&](int64_t i) { return whole ? whole + i * run : writer.row(at + i * inner_, run); };
                    if (nothing)
                        for (int64_t i = 0; i < box.width.size(); ++i) std::memset(slot(i), 0, std::size_t(run) * sizeof(T));
                    else if (across_ == Across::direct)
                        direct(rooms, from, box.width, divisor, slot);
                    else if (across_ == Across::runs)
                        runs(rooms, from, box.width, divisor, whole != nullptr, slot);
                    else if (across_ == Across::blocks)
                        blocks(rooms, from, depths, plane, heights, box.width.first, divisor, slot(0));
                    else
                        line(rooms, from, box.width, divisor, first, ds.size() * hs.size() == 1, whole);
                    first = false;
                    if constexpr (integers)
                        finish_integers(rooms.totals, box.width.size(), run, small_, divisor, *width_.axis, box.width.first,
                                        call_.destination_kind,
                                        static_cast<std::byte*>(call_.destination) + at * item_size(call_.destination_kind), inner_);
                }
        }
    }
    // The same of lines with stride 1: rows may be short, and this asks little for each.
    POOLGRAD_NOINLINE void emit_shifted(Rooms& rooms, Writer<T>& writer, const Box& box, int64_t outer, const Groups& depths, int plane,
                                        const Groups& heights) const {
        if constexpr (!integers) {
            if (!depth_trivial_ || !height_trivial_) reduce(rooms, outer, depths, plane, heights, rooms.columns);
            const int64_t length = box.width.size() * inner_, pitch = width_.destinations() * inner_;
            const Range ds = depths.groups[plane].destinations;
            for (int j = 0; j < heights.count; ++j) {
                A* row = rooms.rows + j * rooms.row_size;
                const Range hs = heights.groups[j].destinations;
                fill_line(rooms, {outer, depths.groups[plane].range, heights.groups[j].range, row});
                for (int64_t d = ds.first; d < ds.last; ++d) {
                    const Divisor by = gradient ? Divisor() : Divisor().times(depth_.axis->divisor(d));
                    const int64_t first_row = (outer * depth_.destinations() + d) * height_.destinations() + hs.first;
                    int64_t at = first_row * pitch + box.width.first * inner_;
                    for (int64_t h = hs.first; h < hs.last; ++h, at += pitch) {
                        T* to = writer.row(at, length);
                        if constexpr (!gradient) make_divisors(rooms, box.width, by.times(height_.axis->divisor(h)), inner_);
                        rooms.line.sum_shifted(row, length, rooms.factors, to);
                    }
                }
            }
        }
    }

    // Over all axes at once, inner long.
    template <class Slot>
    void direct(Rooms& rooms, const Source& from, Range box, Divisor divisor, const Slot& slot) const {
        if constexpr (!gradient) {
            make_divisors(rooms, box, divisor);
            const int64_t row_pitch = width_.sources() * inner_;
            const DirectRow<S, A> row{source_at(rooms, from, rooms.columns.first), height_.sources() * row_pitch, row_pitch, inner_,
                                      from.depths.size(), from.heights.size(), rooms.inner.size(), rooms.runs.spans, box.size(),
                                      rooms.factors, rooms.rows};
            average_directly(row, slot);
        }
    }

    // Along width, inner long or one channel with long windows.
    template <class Slot>
    void runs(Rooms& rooms, const Source& from, Range box, Divisor divisor, bool joined, const Slot& slot) const {
        make_divisors(rooms, box, divisor);
        if (back_) return back(rooms, from, box, slot(0));
        if (three_) return threes(rooms, from, box, slot(0));
        if constexpr (!gradient && !integers)
            if (rooms.runs.beside) {
                T* to = slot(0);
                if (in_place()) return rooms.runs.sum_windows(source_at(rooms, from, rooms.columns.first), box.size(), to);
                return rooms.runs.sum_windows(static_cast<const A*>(from.row), box.size(), to);
            }
        if (in_place())
            rooms.runs.sum(PitchRows<S>{source_at(rooms, from, rooms.columns.first), inner_}, box.size(), joined, slot);
        else
            rooms.runs.sum(PitchRows<A>{from.row, rooms.inner.size()}, box.size(), joined, slot);
    }
    // The gradient of windows of 3 by 2, over all axes at once.
    void back(const Rooms& rooms, const Source& from, Range box, T* to) const {
        if constexpr (gradient) {
            const int64_t pitch = width_.sources() * inner_;
            const S* first = source_at(rooms, from, rooms.columns.first);
            BackRows<A, S> rows{{first, first + pitch}, height_.sources() * pitch, {}, {}};
            fill_weights<A>(height_, from.heights.first, from.heights.size(), rows.height_weights);
            fill_weights<A>(depth_, from.depths.first, from.depths.size(), rows.depth_weights);
            sum_back(ThreeColumns<A>{rooms.columns, inner_, rooms.factors}, rows, depth_trivial_ ? 0 : from.depths.size(), from.heights.size(),
                     rule_, box, to);
        }
    }
    // Windows of 3.
    void threes(const Rooms& rooms, const Source& from, Range box, T* to) const {
        if constexpr (!integers) {
            A weights[3] = {A(1), A(1), A(1)};
            const int64_t pitch = width_.sources() * inner_;
            const ThreeColumns<A> columns{rooms.columns, inner_, rooms.factors};
            const auto make = [&](auto rows, const auto* const* sources) {
                sum_threes<gradient, rows()>(columns, sources, weights, depth_trivial_ ? pitch : 0, rule_, box, to);
            };
            const A* row = from.row;
            if (!depth_trivial_) return make(Constant<1>(), &row);
            fill_weights<A>(height_, from.heights.first, from.heights.size(), weights);
            const S* first = source_at(rooms, from, rooms.columns.first);
            const S* sources[3] = {first, first + pitch, first + 2 * pitch};
            if (from.heights.size() == 1)
                make(Constant<1>(), sources);
            else if (from.heights.size() == 2)
                make(Constant<2>(), sources);
            else
                make(Constant<3>(), sources);
        }
    }

    // Along width, one range longer than a row of scratch.
    void blocks(Rooms& rooms, const Source& from, const Groups& depths, int plane, const Groups& heights, int64_t w, Divisor divisor,
                T* to) const {
        const Range range = width_.range(w);
        const int64_t run = rooms.inner.size();
        A weights[kBlock];
        A* total = rooms.runs.total;
        int64_t first = range.first;
        if constexpr (!gradient && !integers)
            if (rooms.runs.beside && in_place()) first += sum_blocks(source_at(rooms, from, first), range.size(), *total);
        for (; first < range.last; first += kBlock) {
            const Range columns{first, std::min(first + kBlock, range.last)};
            const bool add = first != range.first;
            fill_weights<A>(width_, first, columns.size(), weights);
            if (in_place()) {
                add_block<gradient>(PitchRows<S>{source_at(rooms, from, first), inner_}, weights, columns.size(), run, total, add);
            } else {
                rooms.down.restart();
                reduce(rooms, from.outer, depths, plane, heights, columns);
                add_block<gradient>(PitchRows<A>{from.row, run}, weights, columns.size(), run, total, add);
            }
        }
        finish_run<gradient>(total, run, gradient ? A(1) : divisor.times(width_.axis->divisor(w)).template as<A>(), to);
    }

    // Along width, inner short. `first` and `only`: of the rows that come from the same source.
    void line(Rooms& rooms, const Source& from, Range box, Divisor divisor, bool first, bool only, T* to) const {
        if (first) fill_line(rooms, from);
        if constexpr (gradient) {
            rooms.line.sum_gradient(from.row, box.size(), first, only, to);
        } else {
            make_divisors(rooms, box, divisor, inner_);
            rooms.line.sum_forward(from.row, box.size(), rooms.factors, to);
        }
    }
    void fill_line(const Rooms& rooms, const Source& from) const {
        if (in_place()) rooms.line.fill(from.row, source_at(rooms, from, rooms.columns.first), rooms.factors);
    }

    bool stream_ = false, small_ = false;  // small: sums of integers are divided in float
    int64_t tile_ = 1;                     // destination columns of a box, at most
};

}  // namespace poolgrad::POOLGRAD_ISA
