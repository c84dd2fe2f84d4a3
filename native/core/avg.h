// Averages and their gradients: one separable driver for both.
// Order of the numbers (same bits whatever the tiling): sums over depth, then height, then width, each ascending from the range's
// own start, first term assigned, in blocks of 256; forward one true division at the end, in a gradient each term times 1/divisor of
// its axis in that axis's pass. Lanes of a vector are different destinations, never terms of one sum.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// How a row is summed along width.
enum class Across {
    runs,    // inner is long: each destination is a sum of runs of the row
    line,    // inner is short, the axis regular: the whole row at once, shifted (stride 1) or in phases
    blocks,  // a single range exceeds a row of scratch: one destination at a time, its range in blocks
};

// S stored, A accumulated. Integers end as sums in A and are finished row by row (finish_integers).
template <class S, class A, bool gradient>
class Average {
    static constexpr bool integers = std::is_integral_v<A>;
    using T = std::conditional_t<integers, A, S>;

  public:
    explicit Average(const AverageCall& call)
        : call_(call),
          inner_(call.layout.inner),
          depth_{call.layout.axes[0], gradient},
          height_{call.layout.axes[1], gradient},
          width_{call.layout.axes[2], gradient},
          depth_trivial_(depth_.axis->is_identity()),
          height_trivial_(height_.axis->is_identity()),
          regular_(width_.axis->rule() != nullptr) {
        if (!regular_) return;
        rule_ = *width_.axis->rule();
        // With a single output the stride does not matter; this one says that windows do not overlap.
        if (rule_.output_size == 1) rule_.stride = std::max(rule_.stride, rule_.window);
    }

    void run() {
        Tiling tiling{{call_.layout.outer, depth_.destinations(), height_.destinations(), width_.destinations(), inner_}, {}};
        if (tiling.empty()) return;
        const int64_t result_bytes = tiling.elements() * item_size(call_.destination_kind);
        // In doubles: of sources that are empty the other sizes may be anything.
        double read = double(sizeof(S));
        for (int64_t size : {call_.layout.outer, depth_.sources(), height_.sources(), width_.sources(), inner_}) read *= double(size);
        const int64_t traffic = int64_t(std::min(read, 0x1p60)) + result_bytes;
        if constexpr (gradient)
            if (inner_ == 1 && is_whole(depth_) && is_whole(height_) && is_whole(width_)) return repeat_outputs(traffic);
        plan(tiling);
        balance(tiling, call_.workers, divide_up(traffic, tiling.elements()) * (side_by_side_ ? kPlanes<A> : 1));
        stream_ = !integers && result_bytes >= kStreamBytes;
        tile_ = tiling.tile[3];
        const Rooms measure(*this, nullptr);
        run_boxes(tiling, call_.workers, traffic, measure.arena.used(),
                  [this](const Box& box, std::byte* scratch) { compute(box, scratch); });
    }

  private:
    // Results beyond the last-level cache go past it.
    static constexpr int64_t kStreamBytes = 32 << 20;

    static bool is_whole(const Side& side) { return side.sources() == 1 && side.axis->window(0).size() == side.destinations(); }

    // The gradient of a global average of planes: each plane is one number.
    void repeat_outputs(int64_t traffic) const {
        A weights[3];
        for (std::size_t i = 0; i < 3; ++i) weights[i] = A(1) / A(call_.layout.axes[i]->divisor(0));
        const int64_t plane = depth_.destinations() * height_.destinations() * width_.destinations();
        Tiling tiling{{call_.layout.outer, 1, 1, plane, 1}, {1, 1, 1, std::min<int64_t>(plane, 16 << 10), 1}};
        balance(tiling, call_.workers, int64_t(sizeof(T)));
        run_boxes(tiling, call_.workers, traffic, 0, [&](const Box& box, std::byte*) {
            for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) {
                T value;
                const A grad = load<A, 1>(static_cast<const S*>(call_.source) + outer);
                store<A, 1>(&value, ((grad * weights[0]) * weights[1]) * weights[2]);
                std::fill_n(static_cast<T*>(call_.destination) + outer * plane + box.width.first, box.width.size(), value);
            }
        });
    }

    // Sizes of the scratch and of a box.
    void plan(Tiling& tiling) {
        const bool both = !depth_trivial_ && !height_trivial_;
        fills_ = gradient && regular_ && depth_.longest() == 1 && height_.longest() == 1 && width_.longest() == 1;
        // Fills of long rows are faster row by row, but for strides that are interleaved unit by unit.
        const bool fills_rows = fills_ && (rule_.stride <= 4 || rule_.stride > 16) && width_.destinations() >= 24;
        const bool short_ranges =
            height_.together(kTogether) <= 64 && depth_.together(kTogether) <= 64 && width_.longest() <= 64;
        side_by_side_ = !integers && inner_ == 1 && !fills_rows && short_ranges && call_.layout.outer >= kPlanes<A> / 2 &&
                        width_.sources() > 1;
        const int64_t inner = side_by_side_ ? kPlanes<A> : inner_;
        ring_rows_ = both ? std::min(height_.together(kTogether), kBlock) : 0;
        planes_ = both && ring_rows_ <= 32 && !apart() ? kTogether : 1;
        // Elements of one row of sums: 4096, or as many as keep the columns that neighbouring boxes both sum below a sixth, within
        // 16384 (64 KiB of floats) and the ring of rows within 2 MiB of doubles.
        const int64_t most = std::clamp<int64_t>((256 << 10) / std::max<int64_t>(1, ring_rows_ * planes_), 1024, 16384);
        const int64_t block = std::min(width_.longest(), kBlock);
        run_ = inner * block <= most ? inner : std::min(inner, std::max<int64_t>(64, most / block / 16 * 16));
        columns_ = std::max<int64_t>(1, std::min(most, std::max<int64_t>(4096, 6 * width_.longest() * run_)) / run_);
        const int64_t terms = regular_ ? (gradient ? divide_up(rule_.window, rule_.stride) : rule_.window) : 0;
        const bool fits_line = rule_.window <= rule_.input_size && terms <= kBlock &&
                               (gradient ? terms <= rule_.output_size : rule_.stride <= 64);
        const bool line = regular_ && !side_by_side_ && run_ == inner && (fills_ || (inner < 16 && fits_line));
        across_ = width_.longest() > columns_ ? Across::blocks : line ? Across::line : Across::runs;
        const int64_t across = across_ == Across::blocks ? 1 : std::min(fitting_tile(width_, columns_), columns_);
        columns_ = across_ == Across::blocks ? block : std::clamp<int64_t>(width_.sources(), 1, columns_);
        // With a pass over depth, planes of the source come back for the next depth: keep those of a box within 512 KiB.
        int64_t down = tiling.extent[2];
        if (!depth_trivial_) {
            const int64_t row = columns_ * run_ * int64_t(sizeof(S));
            down = fitting_tile(height_, std::max<int64_t>(4 + height_.longest(), (512 << 10) / (depth_.longest() * row)));
        }
        tiling.tile = {1, tiling.extent[1], down, across, run_};
        if (side_by_side_) {
            tiling.extent[0] = divide_up(tiling.extent[0], kPlanes<A>);
            tiling.tile[4] = 1;
            // At least the rows that are summed together, more while they stay within 16 KiB.
            const int64_t least = std::max(height_.together(kTogether), depth_.together(kTogether));
            plane_rows_ = std::max(least, std::min({height_.sources(), (16 << 10) / (columns_ * run_ * int64_t(sizeof(A))), kBlock}));
        }
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
            line_size = line ? job.line_room() * job.run_ : row_size;
            ring = arena.take<A>((job.apart() ? 1 : job.ring_rows_ * job.planes_) * row_size);
            if (job.apart()) block_row = arena.take<A>(row_size);
            ring_holds = arena.take<int64_t>(job.ring_rows_);
            rows = arena.take<A>(kTogether * line_size);
            if (integers) totals = arena.take<A>(tile * job.run_);
            if (job.stream_) staging = arena.take<T>(job.staging_size() * (job.side_by_side_ ? kPlanes<A> : 1));
            if (job.side_by_side_) {
                plane_rows = arena.take<A>(job.plane_rows_ * row_size);
                joined = arena.take<A>(job.staging_size() * kPlanes<A>);
                spare = arena.take<T>(job.staging_size());
            }
            width_factors = arena.take<A>(line ? (gradient ? line_size : tile * job.run_) : gradient ? job.columns_ : tile);
            if (strided && !gradient) phases = arena.take<A>(line_size + job.rule_.stride * job.run_);
            if (line && gradient) {
                more = arena.take<T>(line_size), fewer = arena.take<T>(line_size);
                finished = arena.take<T>(tile * job.run_);
            }
            if (!line) spans = arena.take<Span>(tile), total = arena.take<A>(job.run_);
        }
        Arena arena;
        int64_t row_size, line_size;
        A *ring, *block_row = nullptr, *rows, *totals = nullptr, *width_factors, *phases = nullptr, *total = nullptr;
        T *staging = nullptr, *more = nullptr, *fewer = nullptr, *finished = nullptr;
        int64_t* ring_holds;
        // Of planes side by side: rows of the source (of which heights), results, room for results of planes not there.
        A *plane_rows = nullptr, *joined = nullptr;
        T* spare = nullptr;
        Range plane_heights{0, 0};
        int planes = 0;
        Span* spans = nullptr;
        Divisor factors_of{0, 0};  // forward: what width_factors are made for

        Range columns{0, 0}, inner{0, 0};  // of the source, of this box
        Line line;
        int64_t rest = 0;  // gradient: how many destinations of a group have the longer sums
    };
    bool apart() const { return ring_rows_ && height_.longest() > kBlock; }
    // Elements of the buffer for results: two rows at least, so that one leaves while whole lines are kept together.
    int64_t staging_size() const { return side_by_side_ ? std::max<int64_t>(512, tile_) : tile_ * run_ + 512 / int64_t(sizeof(T)); }

    static void fill_weights(const Side& side, int64_t first, int64_t count, A* weights) {
        if constexpr (gradient)
            for (int64_t i = 0; i < count; ++i) weights[i] = A(1) / A(side.axis->divisor(first + i));
    }

    void compute(const Box& box, std::byte* scratch) const {
        Rooms rooms(*this, scratch);
        Writer<T> writer(static_cast<T*>(call_.destination), rooms.staging, staging_size());
        PlaneWriter<A, T> plane_writer(rooms.joined, rooms.staging, rooms.spare, staging_size());
        const int64_t plane_size = depth_.destinations() * height_.destinations() * width_.destinations();
        rooms.inner = side_by_side_ ? Range{0, kPlanes<A>} : box.inner;
        rooms.columns = width_.range(box.width);
        if (across_ == Across::line) prepare_line(rooms, box.width);
        if (across_ == Across::runs) prepare_runs(rooms, box.width);
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) {
            if (side_by_side_) {
                const int64_t first = outer * kPlanes<A>;
                rooms.planes = int(std::min<int64_t>(kPlanes<A>, call_.layout.outer - first));
                plane_writer.planes(static_cast<T*>(call_.destination) + first * plane_size, plane_size, rooms.planes);
            }
            for (int64_t d = box.depth.first; d < box.depth.last;) {
                const Groups depths = next_groups(depth_, d, box.depth.last, planes_, side_by_side_ ? plane_rows_ : kBlock);
                d = depths.groups[depths.count - 1].destinations.last;
                std::fill_n(rooms.ring_holds, ring_rows_, -1);
                rooms.plane_heights = {0, 0};
                for (int64_t h = box.height.first; h < box.height.last;) {
                    const Groups heights =
                        next_groups(height_, h, box.height.last, apart() ? 1 : kTogether, ring_rows_ ? ring_rows_ : side_by_side_ ? plane_rows_ : kBlock);
                    h = heights.groups[heights.count - 1].destinations.last;
                    for (int i = 0; i < depths.count; ++i)
                        if (side_by_side_)
                            emit_planes(rooms, plane_writer, box, outer, depths, i, heights);
                        else if (fills_ && across_ == Across::line)
                            emit_fill(rooms, writer, box, outer, depths.groups[i], heights);
                        else
                            emit(rooms, writer, box, outer, depths, i, heights);
                }
            }
        }
        writer.finish();
        plane_writer.flush();
    }

    // Destination rows of some neighbouring heights in the planes of one group.
    void emit(Rooms& rooms, Writer<T>& writer, const Box& box, int64_t outer, const Groups& depths, int plane, const Groups& heights) const {
        const bool reduced = !depth_trivial_ || !height_trivial_;
        const bool nothing = depths.all.empty() || heights.all.empty() || rooms.columns.empty();
        if (reduced && !nothing && across_ != Across::blocks) reduce(rooms, outer, depths, plane, heights, rooms.columns);
        const int64_t run = box.inner.size();
        for (int j = 0; j < heights.count; ++j) {
            const Source from{outer, depths.groups[plane].range, heights.groups[j].range, rooms.rows + j * rooms.line_size};
            bool first = true;
            for (int64_t d = depths.groups[plane].destinations.first; d < depths.groups[plane].destinations.last; ++d)
                for (int64_t h = heights.groups[j].destinations.first; h < heights.groups[j].destinations.last; ++h) {
                    const int64_t at =
                        (((outer * depth_.destinations() + d) * height_.destinations() + h) * width_.destinations() +
                         box.width.first) * inner_ + box.inner.first;
                    Divisor divisor;
                    if constexpr (!gradient) divisor = divisor.times(depth_.axis->divisor(d)).times(height_.axis->divisor(h));
                    T* whole = integers ? reinterpret_cast<T*>(rooms.totals) : run == inner_ ? writer.row(at, box.width.size() * run) : nullptr;
                    const auto slot = [&](int64_t i) { return whole ? whole + i * run : writer.row(at + i * inner_, run); };
                    if (nothing)
                        for (int64_t i = 0; i < box.width.size(); ++i) std::memset(slot(i), 0, std::size_t(run) * sizeof(T));
                    else if (across_ == Across::runs)
                        runs(rooms, from, box.width, divisor, whole != nullptr, slot);
                    else if (across_ == Across::blocks)
                        blocks(rooms, from, depths, plane, heights, box.width.first, divisor, slot(0));
                    else if constexpr (gradient)
                        line_gradient(rooms, from, box.width, first, whole);
                    else
                        line_forward(rooms, from, box.width, divisor, whole);
                    first = false;
                    if constexpr (integers)
                        finish_integers(rooms.totals, box.width.size(), run, divisor, *width_.axis, box.width.first,
                                        call_.destination_kind,
                                        static_cast<std::byte*>(call_.destination) + at * item_size(call_.destination_kind), inner_);
                }
        }
    }

    // The same where no window overlaps another and inner is short: every destination is one source times its weights, or nothing.
    POOLGRAD_NOINLINE void emit_fill(Rooms& rooms, Writer<T>& writer, const Box& box, int64_t outer, const Group& depths,
                                     const Groups& heights) const {
        const int64_t length = box.width.size() * inner_;
        T* more = rooms.more + (rooms.columns.first - rooms.line.first) * inner_;
        A depth = 1, height = 1;
        if (!depths.range.empty()) fill_weights(depth_, depths.range.first, 1, &depth);
        for (int j = 0; j < heights.count; ++j) {
            const Group& group = heights.groups[j];
            const bool nothing = depths.range.empty() || group.range.empty() || rooms.columns.empty();
            if (!nothing) {
                fill_weights(height_, group.range.first, 1, &height);
                weigh_row<A>(more, source_at(rooms, outer, depths.range.first, group.range.first, rooms.columns.first), depth, height,
                             rooms.width_factors, rooms.columns.size() * inner_);
            }
            for (int64_t d = depths.destinations.first; d < depths.destinations.last; ++d) {
                int64_t at = (((outer * depth_.destinations() + d) * height_.destinations() + group.destinations.first) *
                                  width_.destinations() + box.width.first) * inner_;
                for (int64_t h = group.destinations.first; h < group.destinations.last; ++h, at += width_.destinations() * inner_) {
                    T* to = writer.row(at, length);
                    if (nothing)
                        std::memset(to, 0, std::size_t(length) * sizeof(T));
                    else
                        lay_groups(rooms, box.width.size(), to);
                }
            }
        }
    }

    // The same for planes side by side.
    void emit_planes(Rooms& rooms, PlaneWriter<A, T>& writer, const Box& box, int64_t outer, const Groups& depths, int plane,
                     const Groups& heights) const {
        const bool nothing = depths.all.empty() || heights.all.empty() || rooms.columns.empty();
        if (!nothing && !(depth_trivial_ && height_trivial_)) reduce(rooms, outer, depths, plane, heights, rooms.columns);
        for (int j = 0; j < heights.count; ++j) {
            const Group &ds = depths.groups[plane], &hs = heights.groups[j];
            A* row = rooms.rows + j * rooms.line_size;
            if (!nothing && depth_trivial_ && height_trivial_)
                read_planes(rooms, outer, ds.range.first, hs.range.first, rooms.columns, 1, row);
            for (int64_t d = ds.destinations.first; d < ds.destinations.last; ++d)
                for (int64_t h = hs.destinations.first; h < hs.destinations.last; ++h) {
                    A* to = writer.row((d * height_.destinations() + h) * width_.destinations() + box.width.first, box.width.size());
                    Divisor divisor;
                    if constexpr (!gradient) divisor = divisor.times(depth_.axis->divisor(d)).times(height_.axis->divisor(h));
                    make_divisors(rooms, box.width, divisor);
                    if (nothing)
                        std::fill_n(to, box.width.size() * kPlanes<A>, A(0));
                    else
                        runs_of<A>(rooms, PitchRows<A>{row, kPlanes<A>}, box.width.size(), true,
                                   [&](int64_t i) { return to + i * kPlanes<A>; });
                }
        }
    }

    // Rows of the source from height h on, planes side by side; planes not there are read as the last. Several rows only of whole width.
    void read_planes(const Rooms& rooms, int64_t outer, int64_t d, int64_t h, Range columns, int64_t rows, A* to) const {
        const S* from[kPlanes<A>];
        const int64_t plane_size = depth_.sources() * height_.sources() * width_.sources();
        const S* first = static_cast<const S*>(call_.source) + outer * kPlanes<A> * plane_size +
                         (d * height_.sources() + h) * width_.sources() + columns.first;
        for (int p = 0; p < kPlanes<A>; ++p) from[p] = first + std::min(p, rooms.planes - 1) * plane_size;
        load_planes<A, S>(to, from, columns.size() * rows);
    }

    // Where a destination row comes from: `row` holds the sums over depth and height unless both are trivial.
    struct Source {
        int64_t outer;
        Range depths, heights;
        A* row;
    };
    const S* source_at(const Rooms& rooms, int64_t outer, int64_t d, int64_t h, int64_t w) const {
        return static_cast<const S*>(call_.source) +
               (((outer * depth_.sources() + d) * height_.sources() + h) * width_.sources() + w) * inner_ + rooms.inner.first;
    }

    // ---- along width, inner long ----

    void prepare_runs(Rooms& rooms, Range box) const {
        fill_weights(width_, rooms.columns.first, rooms.columns.size(), rooms.width_factors);
        for (int64_t i = 0; i < box.size(); ++i) {
            const Range range = width_.range(box.first + i);
            rooms.spans[i] = {int32_t(range.first - rooms.columns.first), int32_t(range.size())};
        }
    }

    void make_divisors(Rooms& rooms, Range box, Divisor divisor) const {
        if constexpr (!gradient && !integers) {
            if (rooms.factors_of == divisor) return;
            for (int64_t i = 0; i < box.size(); ++i)
                rooms.width_factors[i] = divisor.times(width_.axis->divisor(box.first + i)).template as<A>();
            rooms.factors_of = divisor;
        }
    }

    template <class Slot>
    void runs(Rooms& rooms, const Source& from, Range box, Divisor divisor, bool joined, const Slot& slot) const {
        make_divisors(rooms, box, divisor);
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

    // One destination from more rows than a block; `factors` are their weights in a gradient, else the divisor.
    template <class Rows, class To>
    void long_run(Rooms& rooms, const Rows& rows, Span span, To* to, const A* factors) const {
        for (int32_t first = 0; first < span.count; first += int32_t(kBlock))
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
        for (int64_t first = range.first; first < range.last; first += kBlock) {
            const Range columns{first, std::min(first + kBlock, range.last)};
            fill_weights(width_, first, columns.size(), weights);
            if (depth_trivial_ && height_trivial_) {
                add_block(PitchRows<S>{source_at(rooms, from.outer, from.depths.first, from.heights.first, first), inner_}, weights,
                          columns.size(), run, rooms.total, first != range.first);
            } else {
                std::fill_n(rooms.ring_holds, ring_rows_, -1);
                reduce(rooms, from.outer, depths, plane, heights, columns);
                add_block(PitchRows<A>{from.row, run}, weights, columns.size(), run, rooms.total, first != range.first);
            }
        }
        finish(rooms.total, run, gradient ? A(1) : divisor.times(width_.axis->divisor(w)).template as<A>(), to);
    }

    // ---- along width, inner short ----

    void prepare_line(Rooms& rooms, Range box) const {
        const Line line = rooms.line = line_of(box);
        rooms.rest = rule_.window % rule_.stride ? rule_.window % rule_.stride : rule_.stride;
        rooms.columns = {std::max<int64_t>(0, line.first), std::min(width_.sources(), line.first + line.length)};
        for (int j = 0; j < kTogether; ++j) std::fill_n(rooms.rows + j * rooms.line_size, line.length * inner_, A(-0.0));
        if (fills_)
            for (T* row : {rooms.more, rooms.fewer}) std::memset(row, 0, std::size_t(line.length * inner_) * sizeof(T));
        if constexpr (gradient)
            for (int64_t i = 0; i < rooms.columns.size(); ++i)
                std::fill_n(rooms.width_factors + i * inner_, inner_, A(1) / A(width_.axis->divisor(rooms.columns.first + i)));
    }

    // The source's part of a line.
    A* inside(const Rooms& rooms, A* row) const {
        return across_ == Across::line ? row + (rooms.columns.first - rooms.line.first) * inner_ : row;
    }
    A* fill_line(const Rooms& rooms, const Source& from) const {
        A* to = inside(rooms, from.row);
        if (depth_trivial_ && height_trivial_)
            sum_rows<false, A>(PitchRows<S>{source_at(rooms, from.outer, from.depths.first, from.heights.first, rooms.columns.first), 0}, to,
                               1, rooms.columns.size() * inner_, StoreSink<A, A>{to});
        return to;
    }

    void line_forward(Rooms& rooms, const Source& from, Range box, Divisor divisor, T* to) const {
        const int64_t stride = rule_.stride, window = rule_.window;
        const int64_t length = box.size() * inner_;
        fill_line(rooms, from);
        if constexpr (!integers)
            if (!(rooms.factors_of == divisor)) {
                for (int64_t i = 0; i < box.size(); ++i)
                    std::fill_n(rooms.width_factors + i * inner_, inner_,
                                divisor.times(width_.axis->divisor(box.first + i)).template as<A>());
                rooms.factors_of = divisor;
            }
        const auto sum_line = [&](const auto& rows) {
            if constexpr (integers)
                sum_rows<false, A>(rows, from.row, window, length, StoreSink<A, T>{to});
            else
                sum_rows<false, A>(rows, from.row, window, length, DivideRowSink<A, T>{to, rooms.width_factors});
        };
        if (stride == 1) return sum_line(PitchRows<A>{from.row, inner_});
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
        sum_line(PointerRows<A>{rows});
    }

    // Destinations i with i + before = q * stride + r form group q. Those with r < window % stride sum `terms` sources that end at q, the
    // others one less. Rows of the same source are the same.
    void line_gradient(Rooms& rooms, const Source& from, Range box, bool first, T* to) const {
        const Rule& rule = rule_;
        const Line& line = rooms.line;
        const std::size_t bytes = std::size_t(box.size() * inner_) * sizeof(T);
        if (!first && rule.stride > 1) {
            std::memcpy(to, rooms.finished, bytes);
            return;
        }
        if (first) {
            A* row = fill_line(rooms, from);
            const int64_t length = rooms.columns.size() * inner_;
            scale_row(row, rooms.width_factors, length);
        }
        const auto sum_groups = [&](int64_t terms, T* result) {
            // Groups from here on are past the last output: nothing covers them.
            const int64_t covered =
                terms ? std::clamp<int64_t>(width_.sources() + terms - 1 - (line.first + line.terms - 1), 0, line.groups) : 0;
            sum_rows<false, A>(PitchRows<A>{from.row + (line.terms - terms) * inner_, inner_}, from.row, terms, covered * inner_,
                               StoreSink<A, T>{result});
            std::memset(result + covered * inner_, 0, std::size_t((line.groups - covered) * inner_) * sizeof(T));
        };
        if (rule.stride == 1) return sum_groups(line.terms, to);
        sum_groups(line.terms, rooms.more);
        if (rule.window % rule.stride) sum_groups(line.terms - 1, rooms.fewer);
        lay_groups(rooms, box.size(), rooms.finished);
        std::memcpy(to, rooms.finished, bytes);
    }

    void lay_groups(const Rooms& rooms, int64_t count, T* to) const {
        const int64_t stride = rule_.stride, rest = rooms.rest;
        if (stride <= 16) {
            const T* rows[16];
            for (int64_t r = 0; r < stride; ++r) rows[r] = r < rest ? rooms.more : rooms.fewer;
            return lay_row(to, rows, rooms.line.lead, count, stride, inner_);
        }
        int64_t group = 0;
        for (int64_t begin = rooms.line.lead; count > 0; begin = 0, ++group) {
            const int64_t end = std::min(stride, begin + count);
            to = repeat(to, rooms.more + group * inner_, std::min(rest, end) - begin, inner_);
            to = repeat(to, rooms.fewer + group * inner_, end - std::max(rest, begin), inner_);
            count -= end - begin;
        }
    }

    // ---- over depth and height ----

    // rooms.rows <- the sums over depth and height of some columns, [column][inner], one row for each group of heights.
    void reduce(Rooms& rooms, int64_t outer, const Groups& depths, int plane, const Groups& heights, Range columns) const {
        A* rows[kTogether];
        for (int j = 0; j < kTogether; ++j) rows[j] = inside(rooms, rooms.rows + j * rooms.line_size);
        if (depth_trivial_)
            sum_source(rooms, outer, depths.all.first, heights.all.first, height_, heights, columns, rows);
        else if (height_trivial_)
            for (int j = 0; j < heights.count; ++j) {
                Groups one = depths;
                one.count = 1, one.groups[0] = depths.groups[plane], one.all = one.groups[0].range;
                sum_source(rooms, outer, one.all.first, heights.groups[j].range.first, depth_, one, columns, rows + j);
            }
        else if (apart())
            sum_apart(rooms, outer, depths, heights.all, columns, rows[0]);
        else
            sum_ring(rooms, outer, depths, plane, heights, columns, rows);
    }

    // to[j] + at <- the sum of the rows of the j-th group; row 0 is the first of all groups.
    template <class Rows>
    POOLGRAD_INLINE void sum_each(const Rows& rows, const A* weights, const Groups& groups, int64_t length, A* const* to, int64_t at) const {
        Span spans[kTogether];
        StoreSink<A, A> sinks[kTogether];
        for (int j = 0; j < groups.count; ++j) {
            spans[j] = {int32_t(groups.groups[j].range.first - groups.all.first), int32_t(groups.groups[j].range.size())};
            sinks[j] = {to[j] + at};
        }
        sum_spans<gradient>(rows, weights, spans, groups.count, length, sinks);
    }

    // to[j] <- the sum along depth or height of the source over the j-th range.
    POOLGRAD_NOINLINE void sum_source(Rooms& rooms, int64_t outer, int64_t d, int64_t h, const Side& side, const Groups& groups, Range columns,
                    A* const* to) const {
        if (side_by_side_) return sum_planes(rooms, outer, d, h, side, groups, columns, to);
        const int64_t pitch = width_.sources() * inner_ * (&side == &depth_ ? height_.sources() : 1);
        const int64_t run = rooms.inner.size();
        const bool joined = run == inner_;  // whole runs lie side by side
        const int64_t pieces = joined ? 1 : columns.size(), length = joined ? columns.size() * run : run;
        const S* base = source_at(rooms, outer, d, h, columns.first);
        A weights[kBlock];
        if (groups.all.size() <= kBlock) {
            fill_weights(side, groups.all.first, groups.all.size(), weights);
            for (int64_t i = 0; i < pieces; ++i) sum_each(PitchRows<S>{base + i * inner_, pitch}, weights, groups, length, to, i * run);
            return;
        }
        for (int64_t first = 0; first < groups.all.size(); first += kBlock) {
            const int64_t count = std::min(kBlock, groups.all.size() - first);
            fill_weights(side, groups.all.first + first, count, weights);
            for (int64_t i = 0; i < pieces; ++i)
                add_block(PitchRows<S>{base + first * pitch + i * inner_, pitch}, weights, count, length, to[0] + i * run, first != 0);
        }
    }

    // The same for planes side by side. Rows along height are kept for the next call, those along depth are not.
    POOLGRAD_NOINLINE void sum_planes(Rooms& rooms, int64_t outer, int64_t d, int64_t h, const Side& side, const Groups& groups,
                                      Range columns, A* const* to) const {
        const Range range = groups.all;
        const int64_t size = columns.size() * kPlanes<A>;
        const auto place = [&](int64_t i) { return rooms.plane_rows + i % plane_rows_ * size; };
        const A* rows[kBlock];
        if (&side == &depth_)
            for (int64_t i = range.first; i < range.last; ++i) read_planes(rooms, outer, i, h, columns, 1, place(i));
        else
            // As many rows ahead as there is room for, at once where they lie side by side on both sides.
            for (int64_t i = std::max(rooms.plane_heights.last, range.first); i < range.last;) {
                const int64_t room = std::min(plane_rows_ - (i - range.first), plane_rows_ - i % plane_rows_);
                const int64_t count = columns.size() == width_.sources() ? std::min(room, height_.sources() - i) : 1;
                read_planes(rooms, outer, d, i, columns, count, place(i));
                rooms.plane_heights.last = i += count;
            }
        for (int64_t i = range.first; i < range.last; ++i) rows[i - range.first] = place(i);
        A weights[kBlock];
        fill_weights(side, groups.all.first, groups.all.size(), weights);
        sum_each(PointerRows<A>{rows}, weights, groups, columns.size() * kPlanes<A>, to, 0);
    }

    // Over depth into rings of rows, one ring for each plane and one row for each source height, then over height.
    POOLGRAD_NOINLINE void sum_ring(Rooms& rooms, int64_t outer, const Groups& depths, int plane, const Groups& heights, Range columns, A* const* to) const {
        const int64_t length = columns.size() * rooms.inner.size();
        const auto row = [&](int64_t i, int64_t h) { return rooms.ring + (i * ring_rows_ + h % ring_rows_) * rooms.row_size; };
        const A* rows[kBlock];
        for (int64_t h = heights.all.first; h < heights.all.last; ++h) {
            rows[h - heights.all.first] = row(plane, h);
            if (rooms.ring_holds[h % ring_rows_] == h) continue;
            A* sums[kTogether];
            for (int i = 0; i < depths.count; ++i) sums[i] = row(i, h);
            sum_source(rooms, outer, depths.all.first, h, depth_, depths, columns, sums);
            rooms.ring_holds[h % ring_rows_] = h;
        }
        A weights[kBlock];
        fill_weights(height_, heights.all.first, heights.all.size(), weights);
        sum_each(PointerRows<A>{rows}, weights, heights, length, to, 0);
    }

    // The same where a range of heights has too many rows for a ring: each row is made when needed and added at once.
    void sum_apart(Rooms& rooms, int64_t outer, const Groups& depths, Range heights, Range columns, A* to) const {
        const int64_t length = columns.size() * rooms.inner.size();
        A weight[1] = {A(1)};
        for (int64_t h = heights.first; h < heights.last; ++h) {
            sum_source(rooms, outer, depths.all.first, h, depth_, depths, columns, &rooms.ring);
            const int64_t in_block = (h - heights.first) % kBlock;
            fill_weights(height_, h, 1, weight);
            add_block(PitchRows<A>{rooms.ring, 0}, weight, 1, length, rooms.block_row, in_block != 0);
            if (in_block != kBlock - 1 && h != heights.last - 1) continue;
            if (h - heights.first >= kBlock)
                sum_rows<false>(PitchRows<A>{rooms.block_row, 0}, weight, 1, length, AddSink<A>{to});
            else
                sum_rows<false>(PitchRows<A>{rooms.block_row, 0}, weight, 1, length, StoreSink<A, A>{to});
        }
    }

    const AverageCall& call_;
    const int64_t inner_;
    const Side depth_, height_, width_;
    const bool depth_trivial_, height_trivial_;
    const bool regular_;     // width has a rule, and this is it
    Rule rule_{};
    Across across_ = Across::runs;
    bool stream_ = false;
    bool fills_ = false;         // a gradient without overlaps
    bool side_by_side_ = false;  // kPlanes planes as the inner run
    int planes_ = 1;         // destination planes made together
    int64_t ring_rows_ = 0;  // of sums over depth, for each of these; 0 when depth or height has nothing to sum
    int64_t plane_rows_ = 0; // of the source, planes side by side
    int64_t run_ = 1;        // inner elements of a box
    int64_t columns_ = 1;    // source columns of a box, at most
    int64_t tile_ = 1;       // destination columns of a box, at most
};

}  // namespace poolgrad::POOLGRAD_ISA
