// Gradients of maxima, scattered: outputs in ascending order are added to where their winners lie, in a tile that stays in the cache.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Sums made beside the result go there.
template <class S, class A>
void write_sums(S* to, const A* from, int64_t count, bool stream) {
    if constexpr (std::is_same_v<A, S>)
        if (stream) {
            stream_copy(to, from, count, true);
            stream_fence();
            return;
        }
    each_column<A>(count, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        store<A, lanes>(to + at, load<A, lanes>(from + at));
    });
}

// Neighbours of a run never meet, so all sums are read before one is written. No loops: those would keep them in memory. Of windows cut off by
// the box, what lies outside adds +0 at the edge, which changes nothing: no sum is -0. (A branch took four times as long.) What is added is
// always read from memory: of two NaN, which one is kept depends on that.
template <class S, class A, class W, bool cut>
struct Adds {
    const int64_t* offsets;
    const uintptr_t* kept = nullptr;
    const S zero{};
    POOLGRAD_INLINE A term(const W* codes, const S* grads, int64_t i) const {
        if constexpr (!cut) return load<A, 1>(grads + i);
        const auto none = reinterpret_cast<uintptr_t>(&zero), away = reinterpret_cast<uintptr_t>(grads + i) - none;
        return load<A, 1>(reinterpret_cast<const S*>(none + (away & kept[codes[i]])));
    }
    POOLGRAD_INLINE void one(A* sum, const W* codes, const S* grads, int64_t i) const {
        A& to = sum[offsets[codes[i]] + i];
        to = A(to + term(codes, grads, i));
    }
    POOLGRAD_INLINE void eight(A* sum, const W* codes, const S* grads) const {
        const auto at = [&](int i) POOLGRAD_LAMBDA { return sum + offsets[codes[i]] + i; };
        const auto added = [&](const A* to, int i) POOLGRAD_LAMBDA { return A(*to + term(codes, grads, i)); };
        A *const a = at(0), *const b = at(1), *const c = at(2), *const d = at(3);
        A *const e = at(4), *const f = at(5), *const g = at(6), *const h = at(7);
        const A sums[8] = {added(a, 0), added(b, 1), added(c, 2), added(d, 3), added(e, 4), added(f, 5), added(g, 6), added(h, 7)};
        *a = sums[0], *b = sums[1], *c = sums[2], *d = sums[3], *e = sums[4], *f = sums[5], *g = sums[6], *h = sums[7];
    }
};

template <class S, class V, class C>
class MaxScatter {
    using Winners = WinnerRows<S, V, C>;
    using A = MaxSum<S, V, C>;
    using Inside = std::pair<Range, Range>;  // the depths and heights of a window that lie within a box, counted from the window's start
    static constexpr int kStreams = 4;
    static constexpr int64_t kPortion = 8192;  // outputs of a row that are scattered together

  public:
    MaxScatter(Winners& winners, const MaxBoxes& boxes)
        : winners_(winners), call_(winners.call()), space_(winners.space()), decode_(winners.decode()), boxes_(boxes) {}

    struct Rooms : Winners::Rooms {
        Rooms(const MaxScatter& job, Arena& arena)
            : Winners::Rooms(job.winners_, arena, job.boxes_, std::min(job.boxes_.reached, kPortion), true) {
            const Extent& tile = job.boxes_.tile;
            const int64_t codes = job.decode_.codes();
            sums = arena.take<A>(job.boxes_.beside ? tile[1] * tile[2] * tile[3] * tile[4] : 0);
            if (codes) offsets = arena.take<int64_t>(2 * codes), kept = arena.take<uintptr_t>(codes);
            // Small windows change their winners too often to wait for each other.
            const bool streams = !kPlain<S, V> && job.space_.inner == 1 && codes && !job.decode_.small() &&
                                 job.space_.input_at(1, 0, 0, 0) <= INT32_MAX;
            if (streams) stream_offsets = arena.take<int32_t>(kStreams * codes);
            std::fill_n(stream_inside, kStreams, inside);
        }
        A* sums;
        int64_t* offsets = nullptr;         // of codes, in the sums; then the same with those outside the box moved to its edge,
        uintptr_t* kept = nullptr;          // and no bits of the places of their gradients, all of those of others
        Inside inside{{-1, -1}, {-1, -1}};  // what these are of
        int32_t* stream_offsets = nullptr;
        Inside stream_inside[kStreams];
    };

    void compute(Rooms& rooms, const Box& box) const {
        const Box outputs = winners_.outputs_of(box);
        const int planes = winners_.planes();
        for (int64_t group = box.outer.first; group < box.outer.last; ++group) {
            if (planes > 1) winners_.find(rooms, {group, group + 1}, outputs);
            const int64_t last = std::min((group + 1) * planes, space_.outer);
            for (int64_t outer = group * planes; outer < last; ++outer) scatter(rooms, box, outer, outputs);
        }
    }

  private:
    // Where a box is summed: in the result itself, or beside it.
    struct Sums {
        A* origin;  // of the box's first element
        int64_t pitch_depth, pitch_height, pitch_width;
        int64_t zeroed = 0;  // rows of the box, counted through its depths, that are set to 0
    };

    void scatter(Rooms& rooms, const Box& box, int64_t outer, const Box& outputs) const {
        const int64_t run = box.inner.size(), rows = box.depth.size() * box.height.size();
        S* result = static_cast<S*>(call_.destination) + space_.input_at(outer, box.depth.first, box.height.first, box.width.first) + box.inner.first;
        Sums sums{reinterpret_cast<A*>(result), space_.input_at(0, 1, 0, 0), space_.input_at(0, 0, 1, 0), space_.inner};
        if (boxes_.beside) sums = {rooms.sums, box.height.size() * box.width.size() * run, box.width.size() * run, run};
        for (int64_t code = 0; code < decode_.codes(); ++code) {
            const Offset offset = decode_(uint64_t(code));
            rooms.offsets[code] = offset.depth * sums.pitch_depth + offset.height * sums.pitch_height + offset.width * sums.pitch_width;
        }
        if (!winners_.from_input() || winners_.planes() > 1) {
            scatter_rows(rooms, box, outer, outputs, winners_.view(rooms, outer, outputs), sums);
        } else {
            // Portions in ascending order: whole depths, or rows of one, or parts of a row.
            const Range ds = outputs.depth, hs = outputs.height, ws = outputs.width;
            const int64_t columns = std::min(std::max<int64_t>(1, ws.size()), boxes_.found), heights = std::max<int64_t>(1, boxes_.found / columns);
            const int64_t depths = std::max<int64_t>(1, heights / std::max<int64_t>(1, hs.size()));
            for (int64_t d = ds.first; d < ds.last; d += depths)
                for (int64_t h = hs.first; h < hs.last; h += heights)
                    for (int64_t w = ws.first; w < ws.last; w += columns) {
                        const Box part{{}, {d, std::min(d + depths, ds.last)}, {h, std::min(h + heights, hs.last)},
                                       {w, std::min(w + columns, ws.last)}, box.inner};
                        winners_.find(rooms, {outer, outer + 1}, part);
                        scatter_rows(rooms, box, outer, part, winners_.view(rooms, outer, part), sums);
                    }
        }
        zero_until(sums, box, rows);
        if (!boxes_.beside) return;
        const bool joined = run == space_.inner;
        if (joined && box.width.size() == space_.width.input_size() && (box.depth.size() == 1 || box.height.size() == space_.height.input_size()))
            return write_sums(result, sums.origin, rows * sums.pitch_height, boxes_.stream);
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t w = 0; w < (joined ? 1 : box.width.size()); ++w)
                write_sums(result + row / box.height.size() * space_.input_at(0, 1, 0, 0) +
                               row % box.height.size() * space_.input_at(0, 0, 1, 0) + w * space_.inner,
                           sums.origin + row * sums.pitch_height + w * run, joined ? box.width.size() * run : run, boxes_.stream);
    }

    // Sets rows to 0 just before they are first added to, while they are on their way into the cache anyway.
    void zero_until(Sums& sums, const Box& box, int64_t rows) const {
        const int64_t run = box.inner.size();
        for (; sums.zeroed < rows; ++sums.zeroed) {
            A* row = sums.origin + sums.zeroed / box.height.size() * sums.pitch_depth + sums.zeroed % box.height.size() * sums.pitch_height;
            if (sums.pitch_width == run)
                std::memset(row, 0, std::size_t(box.width.size() * run) * sizeof(A));
            else
                for (int64_t w = 0; w < box.width.size(); ++w) std::memset(row + w * sums.pitch_width, 0, std::size_t(run) * sizeof(A));
        }
    }

    void scatter_rows(Rooms& rooms, const Box& box, int64_t outer, const Box& outputs, const CodeView& codes, Sums& sums) const {
        const auto zero = [&](int64_t d, int64_t h) {
            const int64_t deepest = std::min(space_.depth.window(d).last, box.depth.last) - box.depth.first;
            const int64_t lowest = std::min(space_.height.window(h).last, box.height.last) - box.height.first;
            zero_until(sums, box, std::max<int64_t>(0, deepest - 1) * box.height.size() + std::max<int64_t>(0, lowest));
        };
        const auto grads = [&](int64_t d, int64_t h, int64_t w) {
            return static_cast<const S*>(call_.grad) + space_.output_at(outer, d, h, w) + box.inner.first;
        };
        const int64_t lag = space_.height.longest_cover();
        if (rooms.stream_offsets && outputs.height.size() / kStreams >= lag && outputs.depth.size() > 1 && outputs.width.size() <= kPortion &&
            box.width.size() == space_.width.input_size()) {
            winners_.prepare(rooms, outputs.width);
            const int64_t steps = divide_up(outputs.depth.size(), kStreams) * outputs.height.size() + (kStreams - 1) * lag;
            visit_winners<C, S>(codes.data, codes.bytes, [&](const auto* typed) {
                using W = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
                for (int64_t step = 0; step < steps; ++step) {
                    Stream<W> streams[kStreams];
                    int count = 0;
                    for (int64_t i = 0; i < kStreams; ++i) {
                        const int64_t row = step - i * lag, d = outputs.depth.first + row / outputs.height.size() * kStreams + i;
                        if (row < 0 || d >= outputs.depth.last) continue;
                        const int64_t h = outputs.height.first + row % outputs.height.size();
                        const W* its_codes = typed + codes.index(d, h, outputs.width.first);
                        zero(d, h);
                        if (!winners_.check(rooms, its_codes, codes.pitch_width, outer, d, h, outputs.width, box.inner)) continue;
                        const Range depth = space_.depth.window(d), height = space_.height.window(h);
                        streams[count++] = {sums.origin + (depth.first - box.depth.first) * sums.pitch_depth +
                                                (height.first - box.height.first) * sums.pitch_height - box.width.first,
                                            stream_table(rooms, int(i), box, depth, height), its_codes, grads(d, h, outputs.width.first)};
                    }
                    if (count == kStreams)
                        scatter_streams(rooms.starts, outputs.width.size(), streams, Constant<kStreams>());
                    else
                        for (int i = 0; i < count; ++i) scatter_streams(rooms.starts, outputs.width.size(), streams + i, Constant<1>());
                }
            });
            return;
        }
        for (int64_t d = outputs.depth.first; d < outputs.depth.last; ++d)
            for (int64_t h = outputs.height.first; h < outputs.height.last; ++h) {
                zero(d, h);
                for (int64_t w = outputs.width.first; w < outputs.width.last; w += kPortion) {
                    const Range portion{w, std::min(w + kPortion, outputs.width.last)};
                    winners_.prepare(rooms, portion);
                    visit_winners<C, S>(codes.data, codes.bytes, [&](const auto* typed) {
                        const auto* row = typed + codes.index(d, h, w);
                        if (winners_.check(rooms, row, codes.pitch_width, outer, d, h, portion, box.inner))
                            scatter_row(rooms, box, d, h, row, codes.pitch_width, grads(d, h, w), sums);
                    });
                }
            }
    }

    static Inside inside(const Box& box, Range depth, Range height) {
        const auto within = [](Range all, Range window) {
            const bool whole = all.first <= window.first && window.last <= all.last;
            return whole ? Range{0, INT64_MAX} : Range{std::max<int64_t>(0, all.first - window.first), all.last - window.first};
        };
        return {within(box.depth, depth), within(box.height, height)};
    }
    static bool holds(Range range, int64_t offset) { return range.first <= offset && offset < range.last; }

    // Rows of neighbouring depths that are scattered at once, each so far behind the one before that their windows do not meet: additions
    // to one element keep their order, and one need not wait for another's.
    template <class W>
    struct Stream {
        A* sums;
        const int32_t* offsets;  // -1 for codes outside the box
        const W* codes;
        const S* grads;
    };
    const int32_t* stream_table(Rooms& rooms, int stream, const Box& box, Range depth, Range height) const {
        int32_t* table = rooms.stream_offsets + stream * decode_.codes();
        const Inside here = inside(box, depth, height);
        if (here == rooms.stream_inside[stream]) return table;
        rooms.stream_inside[stream] = here;
        for (int64_t code = 0; code < decode_.codes(); ++code) {
            const Offset offset = decode_(uint64_t(code));
            const bool in_box = holds(here.first, offset.depth) && holds(here.second, offset.height);
            table[code] = in_box ? int32_t(rooms.offsets[code]) : -1;
        }
        return table;
    }
    template <class W, int count>
    POOLGRAD_NOINLINE static void scatter_streams(const int64_t* starts, int64_t outputs, const Stream<W>* streams, Constant<count>) {
        A nowhere = 0;
        for (int64_t w = 0; w < outputs; ++w)
            for (int i = 0; i < count; ++i) {
                const int32_t offset = streams[i].offsets[streams[i].codes[w]];
                A* sum = offset >= 0 ? streams[i].sums + starts[w] + offset : &nowhere;
                *sum = A(*sum + load<A, 1>(streams[i].grads + w));
            }
    }

    // Of windows that the box cuts off.
    const int64_t* cut_offsets(Rooms& rooms, const Box& box, Range depth, Range height, const Sums& sums) const {
        int64_t* offsets = rooms.offsets + decode_.codes();
        const Inside here = inside(box, depth, height);
        if (here == rooms.inside) return offsets;
        rooms.inside = here;
        const auto moved = [](Range range, int64_t offset) { return std::clamp(offset, range.first, range.last - 1); };
        for (int64_t code = 0; code < decode_.codes(); ++code) {
            const Offset offset = decode_(uint64_t(code));
            offsets[code] = moved(here.first, offset.depth) * sums.pitch_depth + moved(here.second, offset.height) * sums.pitch_height +
                            offset.width * sums.pitch_width;
            rooms.kept[code] = holds(here.first, offset.depth) && holds(here.second, offset.height) ? ~uintptr_t(0) : 0;
        }
        return offsets;
    }

    // One output row, its codes all right.
    template <class W>
    void scatter_row(Rooms& rooms, const Box& box, int64_t d, int64_t h, const W* codes, int64_t pitch, const S* grads,
                     const Sums& place) const {
        const Range depth = space_.depth.window(d), height = space_.height.window(h);
        const int64_t run = box.inner.size();
        A* sums = place.origin + (depth.first - box.depth.first) * place.pitch_depth + (height.first - box.height.first) * place.pitch_height;
        const bool rows_inside = depth.first >= box.depth.first && depth.last <= box.depth.last && height.first >= box.height.first &&
                                 height.last <= box.height.last;
        const Range outputs = rooms.outputs;
        const int64_t *starts = rooms.starts, *lengths = rooms.lengths;
        // Windows [inner_first, inner_last) lie within the box as a whole: their codes need no looking at.
        int64_t inner_first = 0, inner_last = rooms.offsets ? outputs.size() : 0;
        while (inner_first < inner_last && starts[inner_first] < box.width.first) ++inner_first;
        while (inner_first < inner_last && starts[inner_last - 1] + lengths[inner_last - 1] > box.width.last) --inner_last;
        if (!rows_inside && decode_.codes() > (inner_last - inner_first) * run) inner_last = inner_first;  // a table would cost more
        const auto checked = [&](int64_t w) {
            for (int64_t i = 0; i < run; ++i) {
                const Offset offset = decode_(codes[w * pitch + i]);
                const int64_t z = depth.first + offset.depth - box.depth.first, y = height.first + offset.height - box.height.first;
                const int64_t x = starts[w] + offset.width - box.width.first;
                if (uint64_t(z) >= uint64_t(box.depth.size()) || uint64_t(y) >= uint64_t(box.height.size()) ||
                    uint64_t(x) >= uint64_t(box.width.size()))
                    continue;
                A& sum = place.origin[z * place.pitch_depth + y * place.pitch_height + x * place.pitch_width + i];
                sum = A(sum + load<A, 1>(grads + w * space_.inner + i));
            }
        };
        for (int64_t w = 0; w < inner_first; ++w) checked(w);
        const auto add = [&](auto adds) POOLGRAD_LAMBDA {
            if (run == 1) {  // a loop of its own: twice as fast
                for (int64_t w = inner_first; w < inner_last; ++w)
                    adds.one(sums + (starts[w] - box.width.first) * place.pitch_width, codes + w * pitch, grads + w * space_.inner, 0);
                return;
            }
            for (int64_t w = inner_first; w < inner_last; ++w) {
                A* sum = sums + (starts[w] - box.width.first) * place.pitch_width;
                const W* code = codes + w * pitch;
                const S* grad = grads + w * space_.inner;
                int64_t i = 0;
                if constexpr (sizeof(W) == 1)
                    for (; i + 8 <= run; i += 8) adds.eight(sum + i, code + i, grad + i);
                for (; i < run; ++i) adds.one(sum, code, grad, i);
            }
        };
        if (rows_inside)
            add(Adds<S, A, W, false>{rooms.offsets});
        else if (inner_first < inner_last)
            add(Adds<S, A, W, true>{cut_offsets(rooms, box, depth, height, place), rooms.kept});
        for (int64_t w = std::max(inner_first, inner_last); w < outputs.size(); ++w) checked(w);
    }

    Winners& winners_;
    const MaxCall& call_;
    const MaxSpace space_;
    const Decoder& decode_;
    const MaxBoxes boxes_;
};

}  // namespace poolgrad::POOLGRAD_ISA
