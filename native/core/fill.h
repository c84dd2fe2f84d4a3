// Gradients of averages whose windows do not overlap: every input is the gradient of one output times its weights, or nothing. Integers are
// divided by the product of the divisors, in double; only long inner runs of them.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// to <- pairs of ((from * a) * b) * factors, the second of a pair 0 unless `both`.
template <class A, class S>
POOLGRAD_NOINLINE void lay_pairs(S* to, const S* from, A a, A b, const A* factors, int64_t pairs, bool both) {
    each_column<A>(pairs, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        const auto value = ((load<A, lanes>(from + at) * a) * b) * load<A, lanes>(factors + at);
        store_zipped<A, lanes>(to + 2 * at, value, both ? value : spread<A, lanes>(A(0)));
    });
}

template <class S, class A>
class Fill : Sides {
    static constexpr bool integers = std::is_integral_v<S>;

  public:
    explicit Fill(const AverageCall& call) : Sides(call, true), runs_(inner_ * int64_t(sizeof(S)) >= 64) {}

    bool usable() const {
        if (depth_.longest() != 1 || height_.longest() != 1 || width_.longest() != 1) return false;
        if (!width_.axis->rule() || integers) return runs_;
        // Shorter rows of many planes are faster side by side.
        const bool rows = width_.destinations() >= (rule_.stride == 2 ? 22 : 31);
        return inner_ > 1 || rows || call_.layout.outer < kPlanes<A> / 2 || width_.sources() == 1;
    }

    void run(int64_t traffic) {
        stream_ = is_streamed(traffic);
        if (is_whole(depth_) && is_whole(height_) && is_whole(width_)) return repeat(traffic);
        const int64_t across = std::min(width_.destinations(), runs_ ? kColumns : kElements / inner_);
        Tiling tiling{destinations(), {1, depth_.destinations(), std::min(height_.destinations(), kHeights), across, std::min(inner_, kElements)}};
        balance(tiling, call_.workers, divide_up(traffic, tiling.elements()));
        heights_ = tiling.tile[2], tile_ = tiling.tile[3];
        const Rooms measure(*this, nullptr);
        run_boxes(tiling, call_.workers, traffic, measure.arena.used(), [this](const Box& box, std::byte* scratch) {
            Rooms rooms(*this, scratch);
            Writer<S> writer(static_cast<S*>(call_.destination), rooms.staging, kStaging);
            for (int64_t h = box.height.first; h < box.height.last; ++h) rooms.heights[h - box.height.first] = Row(height_, h);
            prepare(rooms, box.width);
            for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
                for (Range depths{box.depth.first, 0}; depths.first < box.depth.last; depths.first = depths.last) {
                    const Row depth(depth_, depths.first);
                    for (depths.last = depths.first + 1; depths.last < box.depth.last && depth == Row(depth_, depths.last);) ++depths.last;
                    if (runs_)
                        runs(rooms, writer, box, outer, depth, depths);
                    else if constexpr (!integers)
                        rows(rooms, writer, box, outer, depth, depths);
                }
            writer.finish();
        });
    }

  private:
    static constexpr int64_t kElements = (16 << 10) / int64_t(sizeof(S));  // weighed at once; twice as many are laid
    static constexpr int64_t kStaging = 2 * 64 / int64_t(sizeof(S));
    static constexpr int64_t kHeights = 256, kColumns = 1024;  // of a box

    // From which index of the source a destination comes, or -1, and with which weight.
    struct Row {
        Row(const Side& side, int64_t destination) {
            const Range range = side.range(destination);
            if (!range.empty()) source = range.first, weight = weight_of(side, source);
        }
        bool operator==(const Row& other) const { return source == other.source; }
        int64_t source = -1;
        A weight = 0;
    };
    static A weight_of(const Side& side, int64_t source) {
        const auto divisor = A(side.axis->divisor(source));
        return integers ? divisor : A(1) / divisor;
    }
    static void weigh(S* to, const S* from, const A* weights, int64_t count) {
        if constexpr (integers)
            divide_run(from, weights[0] * weights[1] * weights[2], count, to);
        else
            weigh_row<A>(to, from, weights, count);
    }

    static bool is_whole(const Side& side) { return side.sources() == 1 && side.axis->window(0).size() == side.destinations(); }

    struct Rooms {
        Rooms(const Fill& job, std::byte* base) : arena(base) {
            const int64_t tile = job.tile_ * job.inner_;
            if (job.stream_) staging = arena.take<S>(kStaging);
            heights = arena.take<Row>(job.heights_);
            weighed = arena.take<S>(job.runs_ ? kElements : tile + job.inner_ + GroupRow<S>::kSlack);
            if (job.runs_) {
                factors = arena.take<A>(job.tile_), windows = arena.take<Range>(job.tile_);
                return;
            }
            nothing = arena.take<S>(tile + job.inner_ + GroupRow<S>::kSlack);
            factors = arena.take<A>(tile + job.inner_);
            laid = arena.take<S>(2 * kElements);
            group_row = GroupRow<S>(arena, job.rule_, job.inner_);
        }
        Arena arena;
        S *staging = nullptr, *weighed, *nothing = nullptr, *laid = nullptr;
        A* factors;
        Range* windows = nullptr;  // where the runs of the columns go
        Row* heights;
        GroupRow<S> group_row;
        Range columns{0, 0};
        int64_t lead = 0;
    };

    // ---- inner is long: runs go to memory one after the other ----

    // Where results stay in the caches and need no conversion, each place is weighed anew: that is cheaper than a copy of it.
    void runs_in_place(const Rooms& rooms, const Box& box, int64_t outer, const Row& depth, Range depths) const {
        const int64_t run = box.inner.size();
        for (int64_t z = depths.first; z < depths.last; ++z)
            for (int64_t y = box.height.first; y < box.height.last; ++y) {
                const Row& height = rooms.heights[y - box.height.first];
                S* to = static_cast<S*>(call_.destination) + destination_at(outer, z, y, box.width.first) + box.inner.first;
                int64_t w = box.width.first;
                const auto zero_until = [&](int64_t end) {
                    for (; w < end; ++w, to += inner_) std::memset(to, 0, std::size_t(run) * sizeof(S));
                };
                for (int64_t x = 0; x < rooms.columns.size() && depth.source >= 0 && height.source >= 0; ++x) {
                    zero_until(rooms.windows[x].first);
                    const A weights[3] = {depth.weight, height.weight, rooms.factors[x]};
                    const S* from = source_at<S>(outer, depth.source, height.source, rooms.columns.first + x) + box.inner.first;
                    for (; w < rooms.windows[x].last; ++w, to += inner_) weigh(to, from, weights, run);
                }
                zero_until(box.width.last);
            }
    }
    void runs(Rooms& rooms, Writer<S>& writer, const Box& box, int64_t outer, const Row& depth, Range depths) const {
        if (std::is_same_v<S, A> && !stream_) return runs_in_place(rooms, box, outer, depth, depths);
        const int64_t run = box.inner.size(), most = std::max<int64_t>(1, kElements / run);
        for (Range heights{box.height.first, 0}; heights.first < box.height.last; heights.first = heights.last) {
            const Row *rows = rooms.heights - box.height.first, height = rows[heights.first];
            for (heights.last = heights.first + 1; heights.last < box.height.last && height == rows[heights.last];) ++heights.last;
            const bool nothing = depth.source < 0 || height.source < 0;
            const Range columns = nothing ? Range{0, 0} : Range{0, rooms.columns.size()};
            // Up to which destination a row is written.
            int64_t done = box.width.first;
            for (Range part{0, 0}; done < box.width.last; part.first = part.last) {
                part.last = std::min(part.first + most, columns.last);
                for (int64_t x = part.first; x < part.last; ++x) {
                    const A weights[3] = {depth.weight, height.weight, rooms.factors[x]};
                    const S* from = source_at<S>(outer, depth.source, height.source, rooms.columns.first + x) + box.inner.first;
                    weigh(rooms.weighed + (x - part.first) * run, from, weights, run);
                }
                const int64_t end = part.last == columns.last ? box.width.last : rooms.windows[part.last - 1].last;
                for (int64_t z = depths.first; z < depths.last; ++z)
                    for (int64_t y = heights.first; y < heights.last; ++y) {
                        const int64_t at = destination_at(outer, z, y, 0) + box.inner.first;
                        int64_t w = done;
                        for (int64_t x = part.first; x < part.last; ++x) {
                            for (; w < rooms.windows[x].first; ++w) put(writer, at + w * inner_, nullptr, run);
                            for (; w < rooms.windows[x].last; ++w) put(writer, at + w * inner_, rooms.weighed + (x - part.first) * run, run);
                        }
                        for (; w < end; ++w) put(writer, at + w * inner_, nullptr, run);
                    }
                done = end;
            }
        }
    }
    // A run, or zeros.
    POOLGRAD_INLINE void put(Writer<S>& writer, int64_t at, const S* from, int64_t run) const {
        using Raw = typename BitsOf<sizeof(S)>::type;
        constexpr int lanes = kLanes<S>;
        S* to = static_cast<S*>(call_.destination) + at;
        const auto value = [=](int64_t i) POOLGRAD_LAMBDA {
            return from ? load<Raw, lanes>(reinterpret_cast<const Raw*>(from + i)) : spread<Raw, lanes>(Raw(0));
        };
        if (stream_ && run % lanes == 0 && reinterpret_cast<std::uintptr_t>(to) % 16 == 0)
            for (int64_t i = 0; i < run; i += lanes) stream<Raw, lanes>(reinterpret_cast<Raw*>(to + i), value(i));
        else if (stream_ || run < lanes)
            writer.put(at, from, run);
        else
            for (int64_t i = 0; i < run; i += lanes) {
                const int64_t k = std::min(i, run - lanes);  // the last overlaps the one before
                store<Raw, lanes>(reinterpret_cast<Raw*>(to + k), value(k));
            }
    }

    // ---- inner is short, the axis regular: some rows are laid, then leave together ----

    void prepare(Rooms& rooms, Range box) const {
        if (runs_) {
            rooms.columns = width_.range(box);
            for (int64_t x = rooms.columns.first; x < rooms.columns.last; ++x) {
                const Range window = width_.axis->window(x);
                rooms.factors[x - rooms.columns.first] = weight_of(width_, x);
                rooms.windows[x - rooms.columns.first] = {std::clamp(window.first, box.first, box.last), std::min(window.last, box.last)};
            }
            return;
        }
        const int64_t group = (box.first + rule_.before) / rule_.stride;
        const int64_t groups = (box.last - 1 + rule_.before) / rule_.stride - group + 1;
        rooms.lead = box.first + rule_.before - group * rule_.stride;
        rooms.columns = {std::min(group, width_.sources()), std::min(width_.sources(), group + groups)};
        rooms.group_row.prepare(rooms.lead);
        for (S* row : {rooms.weighed, rooms.nothing}) std::memset(row, 0, std::size_t(groups * inner_) * sizeof(S));
        for (int64_t i = 0; i < rooms.columns.size(); ++i)
            std::fill_n(rooms.factors + i * inner_, inner_, weight_of(width_, rooms.columns.first + i));
    }

    void rows(Rooms& rooms, Writer<S>& writer, const Box& box, int64_t outer, const Row& depth, Range depths) const {
        const int64_t length = box.width.size() * inner_, row = width_.destinations() * inner_, most = 2 * kElements / length;
        const int64_t pitch = stream_ ? length : row;
        for (Range heights{box.height.first, 0}; heights.first < box.height.last; heights.first = heights.last) {
            heights.last = std::min(heights.first + most, box.height.last);
            const int64_t at = destination_at(outer, depths.first, heights.first, box.width.first);
            S* laid = stream_ ? rooms.laid : static_cast<S*>(call_.destination) + at;
            for (int64_t h = heights.first; h < heights.last; ++h) {
                const Row* height = rooms.heights + h - box.height.first;
                S* to = laid + (h - heights.first) * pitch;
                if (h > heights.first && height[0] == height[-1])
                    copy_row(to, to - pitch, length);
                else
                    lay(rooms, outer, depth, *height, to, box.width.size());
            }
            // Rows that are wholly of this box lie one after the other.
            const int64_t pieces = length == row ? 1 : heights.size(), size = heights.size() / pieces * length;
            for (int64_t d = depths.first; d < depths.last; ++d)
                for (int64_t i = 0; i < pieces && (stream_ || d > depths.first); ++i)
                    writer.put(at + (d - depths.first) * height_.destinations() * row + i * row, laid + i * pitch, size);
        }
    }
    void lay(Rooms& rooms, int64_t outer, const Row& depth, const Row& height, S* to, int64_t count) const {
        if (depth.source < 0 || height.source < 0 || rooms.columns.empty()) {
            std::memset(to, 0, std::size_t(count * inner_) * sizeof(S));
            return;
        }
        const S* from = source_at<S>(outer, depth.source, height.source, rooms.columns.first);
        if (rule_.stride == 2 && inner_ == 1 && rooms.lead == 0 && rooms.columns.size() >= count / 2) {
            lay_pairs(to, from, depth.weight, height.weight, rooms.factors, count / 2, rule_.window == 2);
            if (count % 2 == 0) return;
            if (rooms.columns.size() == count / 2)
                std::memset(to + count - 1, 0, sizeof(S));
            else
                weigh_row<A>(to + count - 1, from + count / 2, depth.weight, height.weight, rooms.factors + count / 2, 1);
            return;
        }
        weigh_row<A>(rooms.weighed, from, depth.weight, height.weight, rooms.factors, rooms.columns.size() * inner_);
        rooms.group_row.lay(to, rooms.weighed, rooms.nothing, count);
    }

    // ---- a global average: one run of inner elements, again and again ----

    void repeat(int64_t traffic) const {
        A weights[3];
        for (std::size_t i = 0; i < 3; ++i) weights[i] = weight_of(Side{call_.layout.axes[i], true}, 0);
        const int64_t places = depth_.destinations() * height_.destinations() * width_.destinations();
        const bool streaming = stream_ && places * inner_ * int64_t(sizeof(S)) >= 4096;  // else most lines are of two outputs
        // What is copied stays in the first cache, beside what is written.
        constexpr int64_t most = (8 << 10) / int64_t(sizeof(S));
        const int64_t run = divide_up(inner_, divide_up(inner_, most)), copies = run == inner_ ? std::min(places, most / run) : 1;
        Tiling tiling{{call_.layout.outer, 1, 1, places, inner_}, {1, 1, 1, std::min<int64_t>(places, divide_up(32 << 10, run)), run}};
        balance(tiling, call_.workers, int64_t(sizeof(S)));
        if constexpr (!integers)
            if (inner_ == 1 && !streaming) return fill_planes(tiling, traffic, weights, places);
        run_boxes(tiling, call_.workers, traffic, copies * run * int64_t(sizeof(S)), [&](const Box& box, std::byte* scratch) {
            S* pattern = reinterpret_cast<S*>(scratch);
            const int64_t length = box.inner.size(), part = std::min(copies, box.width.size()) * length;
            for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) {
                const S* grads = static_cast<const S*>(call_.source) + outer * inner_ + box.inner.first;
                S* to = static_cast<S*>(call_.destination) + (outer * places + box.width.first) * inner_ + box.inner.first;
                const bool once = part == box.width.size() * length && !streaming;  // the pattern is all there is
                S* first = once ? to : pattern;
                weigh(first, grads, weights, length);
                if (length == 1) fill_row(first, part, *first);
                for (int64_t done = length; length > 1 && done < part; done += std::min(done, part - done))
                    copy_row(first + done, first, std::min(done, part - done));
                if (once) continue;
                for (int64_t at = 0, end = box.width.size() * length; at < end; at += part) {
                    const int64_t count = std::min(part, end - at);
                    S* piece = to + at / length * inner_;
                    if (streaming)
                        stream_copy(piece, pattern, count, true);
                    else
                        copy_row(piece, pattern, count);
                }
            }
            stream_fence();
        });
    }

    // Planes of one number each. Their last register goes beyond them, to where the next plane is written later.
    void fill_planes(const Tiling& tiling, int64_t traffic, const A* weights, int64_t places) const {
        using Raw = typename BitsOf<sizeof(S)>::type;
        constexpr int64_t lanes = kLanes<Raw>, capacity = 4096, many = 64;
        run_boxes(tiling, call_.workers, traffic, stream_ ? (capacity + lanes) * int64_t(sizeof(S)) : 0, [&](const Box& box, std::byte* scratch) {
            Writer<S> writer(static_cast<S*>(call_.destination), stream_ ? reinterpret_cast<S*>(scratch) : nullptr, capacity);
            const int64_t count = box.width.size();
            const int64_t end = stream_ ? INT64_MAX : count == places ? box.outer.last * places : 0;
            S values[many];
            Raw ends[2 * lanes] = {};
            std::fill_n(ends, lanes, Raw(-1));
            Vector<Raw, int(lanes)> before{};
            for (Range some{box.outer.first, 0}; some.first < box.outer.last; some.first = some.last) {
                some.last = std::min(some.first + many, box.outer.last);
                weigh(values, static_cast<const S*>(call_.source) + some.first, weights, some.size());
                int64_t at = some.first * places + box.width.first;
                for (int64_t i = 0; i < some.size(); ++i, at += places) {
                    S* to = writer.row(at, count);
                    if (at + count + lanes > end) {
                        fill_row(to, count, values[i]);
                        continue;
                    }
                    // Whole registers at multiples of their size; the first also holds the end of the plane before.
                    const auto value = spread<Raw, int(lanes)>(bit_copy<Raw>(values[i]));
                    const bool follows = (i || some.first > box.outer.first) && places >= lanes;
                    const int64_t over = follows ? int64_t(reinterpret_cast<std::uintptr_t>(to) / sizeof(S)) % lanes : 0;
                    Raw* raw = reinterpret_cast<Raw*>(to - over);
                    Raw* const last = raw + count + over;
                    store<Raw, int(lanes)>(raw, select<Raw, int(lanes)>(load<Raw, int(lanes)>(ends + lanes - over), before, value));
                    for (raw += lanes; raw + 4 * lanes < last; raw += 4 * lanes)
                        for (int k = 0; k < 4; ++k) store<Raw, int(lanes)>(raw + k * lanes, value);
                    for (; raw < last; raw += lanes) store<Raw, int(lanes)>(raw, value);
                    before = value;
                }
            }
            writer.finish();
        });
    }

    const bool runs_;  // inner is long
    bool stream_ = false;
    int64_t heights_ = 1, tile_ = 1;  // destination rows and columns of a box, at most
};

}  // namespace poolgrad::POOLGRAD_ISA
