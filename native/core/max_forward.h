// Maxima and winners, axis by axis: rows of the source along width, kept in a ring; these along height; these along depth.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// values, codes <- the first maximum of rows of maxima so far.
template <bool coded, class V, class C>
POOLGRAD_NOINLINE void best_of_best(const BestRow<V, C>* rows, int64_t count, int64_t length, V* values, C* codes, bool nan) {
    if constexpr (!coded)
        if (!nan) return largest_of_best(rows, count, length, values);
    if constexpr (coded || std::is_floating_point_v<V>)
        fold_best<coded>(rows, count, length, values, codes,
                         [](auto lanes, auto x, auto best, auto, auto) POOLGRAD_LAMBDA { return better<V, lanes()>(x, best); });
}

// Makes rows of maxima for a box of outputs of one outer index (or kPlanes of them, side by side).
template <class S, class V, class C, bool coded>
class Best {
  public:
    Best(const MaxCall& call, const MaxSpace& space, bool planes) : call_(call), space_(space), sign_(call, Type<S>()), lines_(call, space) {
        const Rule* rule = space.width.rule();
        side_by_side_ = kWords<S, V> && planes && !lines_.usable() && space.inner == 1 && space.outer >= kPlanes<V> / 2 &&
                        space.width.longest_window() <= 64 && (!rule || space.width.output_size() < 32 || rule->stride > 4);
        const int64_t inner = side_by_side_ ? kPlanes<V> : space.inner;
        constexpr int64_t room = (8 << 10) / int64_t(sizeof(V));  // elements of a row
        run_ = std::clamp<int64_t>(inner, 1, room);
        tile_ = std::clamp<int64_t>(room / run_, 1, std::max<int64_t>(1, space.width.output_size()));
        line_ = !kPlain<S, V> && rule && !side_by_side_ && run_ == space.inner && inner < 16 && rule->stride <= 8 && rule->window <= 64 &&
                rule->window <= rule->input_size && tile_ > 1;
        if (lines_.usable()) tile_ = std::min(tile_, lines_.tile());
        if (side_by_side_) tile_ = std::min(tile_, fitting_tile(Side{&space.width, false}, kColumns));
        // Windows that do not overlap share nothing: they are searched in one pass.
        const auto apart = [](const Axis& axis) { return axis.longest_cover() == 1; };
        direct_ = !kPlain<S, V> && !line_ && !side_by_side_ && apart(space.depth) && apart(space.height) && apart(space.width) &&
                  space.depth.longest_window() * space.height.longest_window() * space.width.longest_window() <= kDirect;
        ring_rows_ = std::min(space.height.longest_window(), kRows);
        depth_rows_ = std::min(space.depth.longest_window(), kRows / 2);
        // Neighbouring blocks of heights share source rows: as high as their planes stay within 256 KiB.
        const int64_t row = row_size() * int64_t(sizeof(V) + sizeof(C));
        block_ = depth_rows_ > 1 ? std::clamp<int64_t>((256 << 10) / (depth_rows_ * row), 4, 32) : 1;
    }

    int64_t run() const { return side_by_side_ ? 1 : run_; }
    int64_t tile() const { return tile_; }
    int64_t block() const { return block_; }
    int64_t most() const { return std::max(row_size(), Lines<S, V, C, coded>::kRoom); }  // elements that a sink is given at once
    int planes() const { return side_by_side_ ? kPlanes<V> : 1; }

    struct Rooms {
        Rooms(const Best& job, Arena& arena) : lines(job.lines_, arena) {
            const int64_t size = job.row_size();
            ring_values = arena.take<V>(job.ring_rows_ * size), ring_codes = arena.take<C>(job.ring_rows_ * size);
            ring_holds = arena.take<int64_t>(job.ring_rows_);
            const int64_t planes = job.block_ > 1 ? job.depth_rows_ * job.block_ : 0;
            plane_values = arena.take<V>(planes * size), plane_codes = arena.take<C>(planes * size);
            plane_holds = arena.take<int64_t>(planes);
            values = arena.take<V>(size), codes = arena.take<C>(size);
            const int64_t stride = job.line_ ? job.space_.width.rule()->stride : 1;
            const int64_t line = job.line_ ? ((job.tile_ + 1) * stride + job.space_.width.rule()->window) * job.run_ : 0;
            padded = arena.take<S>(line), phases = arena.take<S>(stride > 1 ? 2 * line : 0);
            if (job.side_by_side_)
                joined = arena.take<V>(kColumns * kPlanes<V>), spare = arena.take<S>(job.tile_), spare_codes = arena.take<C>(job.tile_);
        }
        typename Lines<S, V, C, coded>::Rooms lines;
        V *ring_values, *plane_values, *values, *joined = nullptr;
        C *ring_codes, *plane_codes, *codes;
        int64_t *ring_holds, *plane_holds;
        S *padded, *phases, *spare = nullptr;  // spare: room for results of planes that are not there
        C* spare_codes = nullptr;
        Range outputs{0, 0}, inner{0, 0};  // of the box
        bool nan = false;                  // one may have been met in the box
        std::pair<int64_t, int64_t> joined_plane{-1, -1};  // (outer, depth) and heights that lie side by side in `joined`
        Range joined_rows{0, 0};
    };

    // sink(d, h, count, values, codes) for every output row of the box, [width][inner], or `count` of them one after the other: depth by
    // depth, but for windows of several depths in blocks of heights.
    template <class Sink>
    void rows(Rooms& rooms, int64_t outer, const Box& box, const Sink& sink) const {
        if constexpr (!kPlain<S, V>)
            if (lines_.usable()) return as_lines(rooms, outer, box, sink);
        carefully(rooms, outer, box, sink);
    }

  private:
    template <class Sink>
    void as_lines(Rooms& rooms, int64_t outer, const Box& box, const Sink& sink) const {
        lines_.prepare(rooms.lines, box.width);
        for (int64_t d = box.depth.first; d < box.depth.last; ++d)
            for (Range heights{box.height.first, 0}; heights.first < box.height.last; heights.first = heights.last) {
                heights.last = std::min(heights.first + rooms.lines.block, box.height.last);
                if (lines_.find(rooms.lines, outer, d, heights, box.width))
                    sink(d, heights.first, heights.size(), rooms.lines.packed.values, rooms.lines.packed.codes);
                else
                    carefully(rooms, outer, {box.outer, {d, d + 1}, heights, box.width, box.inner}, sink);
            }
    }

    template <class Sink>
    void carefully(Rooms& rooms, int64_t outer, const Box& box, const Sink& sink) const {
        rooms.outputs = box.width;
        rooms.joined_plane = {-1, -1};
        rooms.nan = false;
        rooms.inner = side_by_side_ ? Range{0, kPlanes<V>} : box.inner;
        if (line_) std::fill_n(rooms.padded, line_length(box.width) * space_.inner, lowest());
        const int64_t length = box.width.size() * rooms.inner.size();
        if constexpr (!kPlain<S, V>)
            if (direct_) {
                for (int64_t d = box.depth.first; d < box.depth.last; ++d)
                    for (int64_t h = box.height.first; h < box.height.last; ++h) {
                        at_once(rooms, outer, d, h);
                        sink(d, h, 1, rooms.values, rooms.codes);
                    }
                return;
            }
        if (block_ == 1) {
            for (int64_t d = box.depth.first; d < box.depth.last; ++d) {
                std::fill_n(rooms.ring_holds, ring_rows_, -1);
                for (int64_t h = box.height.first; h < box.height.last; ++h) {
                    along_height(rooms, outer, space_.depth.window(d).first, h, length, rooms.values, rooms.codes);
                    sink(d, h, 1, rooms.values, rooms.codes);
                }
            }
            return;
        }
        for (int64_t first = box.height.first; first < box.height.last; first += block_) {
            const Range heights{first, std::min(first + block_, box.height.last)};
            std::fill_n(rooms.plane_holds, depth_rows_ * block_, -1);
            for (int64_t d = box.depth.first; d < box.depth.last; ++d)
                for (int64_t h = heights.first; h < heights.last; ++h) {
                    along_depth(rooms, outer, d, h, heights, length);
                    sink(d, h, 1, rooms.values, rooms.codes);
                }
        }
    }

    static constexpr int64_t kRows = 64;      // of maxima that are kept, along height; half as many along depth
    static constexpr int64_t kDirect = 16;    // elements of a window searched in one pass
    static constexpr int64_t kColumns = 512;  // source columns of planes side by side
    int64_t row_size() const { return tile_ * run_; }

    // Below everything, so that it never beats a value; where it equals one, the codes are mended (line_along_width).
    S lowest() const {
        S result;
        if constexpr (is_float<S>)
            store<V, 1>(&result, sign_.template turn<1>(-std::numeric_limits<V>::infinity()));
        else
            store<V, 1>(&result, sign_.template turn<1>(std::numeric_limits<S>::lowest()));
        return result;
    }

    void at_once(Rooms& rooms, int64_t outer, int64_t d, int64_t h) const {
        const Range depth = space_.depth.window(d), height = space_.height.window(h);
        const int64_t run = rooms.inner.size();
        V* values = rooms.values;
        C* codes = rooms.codes;
        for (int64_t w = rooms.outputs.first; w < rooms.outputs.last; ++w, values += run, codes += run) {
            const Range width = space_.width.window(w);
            Candidate<S, C> candidates[kDirect];
            int count = 0;
            for (int64_t z = depth.first; z < depth.last; ++z)
                for (int64_t y = height.first; y < height.last; ++y) {
                    const S* row = static_cast<const S*>(call_.source) + space_.input_at(outer, z, y, width.first) + rooms.inner.first;
                    C code = C(uint64_t(z - depth.first) * space_.step[0] + uint64_t(y - height.first) * space_.step[1]);
                    for (int64_t x = 0; x < width.size(); ++x, row += space_.inner, code = C(code + space_.step[2]))
                        candidates[count++] = {row, code};
                }
            first_of_rows(rooms, [&](int64_t t) POOLGRAD_LAMBDA { return candidates[t].row; },
                          [&](int64_t t) POOLGRAD_LAMBDA { return candidates[t].code; }, count, run, values, codes);
        }
    }

    // Rows are folded in portions of the ring's size, the maxima so far going first into the next portion.
    void along_height(Rooms& rooms, int64_t outer, int64_t d, int64_t h, int64_t length, V* values, C* codes) const {
        const Range window = space_.height.window(h);
        BestRow<V, C> rows[kRows + 1];
        for (int64_t first = window.first; first < window.last; first += ring_rows_) {
            int64_t count = 0;
            if (first != window.first) rows[count++] = {values, codes, C(0)};
            for (int64_t y = first; y < std::min(first + ring_rows_, window.last); ++y) {
                const int64_t place = y % ring_rows_;
                V* row = rooms.ring_values + place * row_size();
                C* row_codes = rooms.ring_codes + place * row_size();
                if (rooms.ring_holds[place] != y) along_width(rooms, outer, d, y, row, row_codes);
                rooms.ring_holds[place] = y;
                rows[count++] = {row, row_codes, C(uint64_t(y - window.first) * space_.step[1])};
            }
            best_of_best<coded>(rows, count, length, values, codes, rooms.nan);
        }
    }

    void along_depth(Rooms& rooms, int64_t outer, int64_t d, int64_t h, Range heights, int64_t length) const {
        const Range window = space_.depth.window(d);
        BestRow<V, C> rows[kRows + 1];
        for (int64_t first = window.first; first < window.last; first += depth_rows_) {
            int64_t count = 0;
            if (first != window.first) rows[count++] = {rooms.values, rooms.codes, C(0)};
            for (int64_t z = first; z < std::min(first + depth_rows_, window.last); ++z) {
                const int64_t start = z % depth_rows_ * block_;
                if (rooms.plane_holds[start + h - heights.first] != z) {
                    std::fill_n(rooms.ring_holds, ring_rows_, -1);
                    for (int64_t y = heights.first; y < heights.last; ++y) {
                        const int64_t place = start + y - heights.first;
                        along_height(rooms, outer, z, y, length, rooms.plane_values + place * row_size(),
                                     rooms.plane_codes + place * row_size());
                        rooms.plane_holds[place] = z;
                    }
                }
                const int64_t place = start + h - heights.first;
                rows[count++] = {rooms.plane_values + place * row_size(), rooms.plane_codes + place * row_size(),
                                 C(uint64_t(z - window.first) * space_.step[0])};
            }
            best_of_best<coded>(rows, count, length, rooms.values, rooms.codes, rooms.nan);
        }
    }

    // One source row.
    void along_width(Rooms& rooms, int64_t outer, int64_t d, int64_t h, V* values, C* codes) const {
        const S* row = static_cast<const S*>(call_.source) + space_.input_at(outer, d, h, 0) + rooms.inner.first;
        if constexpr (kWords<S, V>)
            if (side_by_side_) return planes_along_width(rooms, outer, d, h, values, codes);
        if constexpr (!kPlain<S, V>)
            if (line_) return line_along_width(rooms, row, values, codes);
        const int64_t run = rooms.inner.size();
        for (int64_t w = rooms.outputs.first; w < rooms.outputs.last; ++w, values += run, codes += run) {
            const Range window = space_.width.window(w);
            best(rooms, PitchRows<S>{row + window.first * space_.inner, space_.inner}, window.size(), run, values, codes);
        }
    }
    template <class Rows>
    POOLGRAD_NOINLINE void best(Rooms& rooms, const Rows& rows, int64_t count, int64_t length, V* values, C* codes) const {
        const C step = C(space_.step[2]);
        constexpr bool few = std::is_same_v<Rows, PitchRows<S>>;  // three in a row are worth code of their own
        first_of_rows<few>(rooms, rows, [=](int64_t t) POOLGRAD_LAMBDA { return C(C(t) * step); }, count, length, values, codes);
    }

    // The first maximum of rows of the source; without codes and NaN that is the largest. From its first NaN on, a box is looked at
    // more slowly.
    template <bool few = false, class Rows, class Code>
    POOLGRAD_INLINE void first_of_rows(Rooms& rooms, const Rows& rows, const Code& code_of, int64_t count, int64_t length, V* values,
                                       C* codes) const {
        const Turn<V> sign = sign_;
        if constexpr (!coded)
            if (!rooms.nan) {
                Odd<V> odd;
                const auto largest = [&](auto terms) POOLGRAD_LAMBDA {
                    fold_largest(
                        terms, length, values,
                        [&](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA { return sign.template turn<lanes()>(load<V, lanes()>(rows(t) + at)); }, odd);
                };
                if (few && count == 3)
                    largest(Constant<few ? 3 : 1>());
                else
                    largest(count);
                rooms.nan = odd.seen();
            }
        if constexpr (coded || std::is_floating_point_v<V>)
            if (coded || rooms.nan) best_of_rows<coded>(rows, code_of, count, sign, length, values, codes);
    }

    // As many rows are laid side by side at once as there is room for, where they lie one after the other.
    void planes_along_width(Rooms& rooms, int64_t outer, int64_t d, int64_t h, V* values, C* codes) const {
        const Range columns = Side{&space_.width, false}.range(rooms.outputs);
        if (rooms.joined_plane != std::pair(outer, d) || h < rooms.joined_rows.first || h >= rooms.joined_rows.last) {
            const int64_t rows = columns.size() == space_.width.input_size() ? std::clamp<int64_t>(kColumns / columns.size(), 1, space_.height.input_size() - h) : 1;
            const int64_t pitch = space_.input_at(1, 0, 0, 0), last = std::min<int64_t>(kPlanes<V>, space_.outer - outer * kPlanes<V>) - 1;
            const S* first = static_cast<const S*>(call_.source) + space_.input_at(outer * kPlanes<V>, d, h, columns.first);
            const S* from[kPlanes<V>];
            for (int p = 0; p < kPlanes<V>; ++p) from[p] = first + std::min<int64_t>(p, last) * pitch;
            load_planes<V, S>(rooms.joined, from, columns.size() * rows);
            rooms.joined_plane = {outer, d}, rooms.joined_rows = {h, h + rows};
        }
        best_of_planes(rooms, rooms.joined + ((h - rooms.joined_rows.first) * columns.size() - columns.first) * kPlanes<V>, values, codes);
    }
    // The maxima along width of a row of planes side by side.
    POOLGRAD_NOINLINE void best_of_planes(Rooms& rooms, const V* row, V* values, C* codes) const {
        const C step = C(space_.step[2]);
        for (int64_t w = rooms.outputs.first; w < rooms.outputs.last; ++w, values += kPlanes<V>, codes += kPlanes<V>) {
            const Range window = space_.width.window(w);
            first_of_rows(rooms, PitchRows<V>{row + window.first * kPlanes<V>, kPlanes<V>}, [=](int64_t t) POOLGRAD_LAMBDA { return C(C(t) * step); },
                          window.size(), kPlanes<V>, values, codes);
        }
    }

    // Inner is short and the axis regular: all windows of the row at once, on a copy of the row with `lowest` around it.
    int64_t line_length(Range outputs) const {
        const Rule& rule = *space_.width.rule();
        return (outputs.size() - 1) * rule.stride + rule.window;
    }
    void line_along_width(Rooms& rooms, const S* row, V* values, C* codes) const {
        const Rule& rule = *space_.width.rule();
        const int64_t inner = space_.inner, outputs = rooms.outputs.size(), start = rooms.outputs.first * rule.stride - rule.before;
        const Range columns{std::max<int64_t>(0, start), std::min(rule.input_size, start + line_length(rooms.outputs))};
        std::memcpy(rooms.padded + (columns.first - start) * inner, row + columns.first * inner,
                    std::size_t(columns.size() * inner) * sizeof(S));
        if (rule.stride == 1) {
            best(rooms, PitchRows<S>{rooms.padded, inner}, rule.window, outputs * inner, values, codes);
        } else {
            const S *starts[64], *rows[64];
            S* phase = rooms.phases;
            for (int64_t r = 0; r < std::min(rule.stride, rule.window); ++r) {
                const int64_t count = outputs + (rule.window - 1 - r) / rule.stride;
                take_strided(phase, rooms.padded + r * inner, count, rule.stride, inner);
                starts[r] = phase;
                phase += count * inner;
            }
            for (int64_t t = 0; t < rule.window; ++t) rows[t] = starts[t % rule.stride] + t / rule.stride * inner;
            best(rooms, PointerRows<S>{rows}, rule.window, outputs * inner, values, codes);
        }
        // Codes count from the clipped start. What is around the row wins only over equals: then the first true element does.
        if constexpr (coded)
            for (int64_t w = rooms.outputs.first; w < rooms.outputs.last && w * rule.stride < rule.before; ++w) {
                const C clipped = C(uint64_t(rule.before - w * rule.stride) * space_.step[2]);
                C* run = codes + (w - rooms.outputs.first) * inner;
                for (int64_t i = 0; i < inner; ++i) run[i] = run[i] > clipped ? C(run[i] - clipped) : C(0);
            }
    }

    const MaxCall& call_;
    const MaxSpace& space_;
    const Turn<V> sign_;
    Lines<S, V, C, coded> lines_;
    bool side_by_side_, line_, direct_;
    int64_t run_, tile_, ring_rows_, depth_rows_, block_;
};

// Values of a row back to how they are stored.
template <class S, class V>
void store_values(S* to, const V* from, int64_t count, Turn<V> sign) {
    each_column<V>(count, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        store<V, lanes>(to + at, sign.template turn<lanes>(load<V, lanes>(from + at)));
    });
}

// Codes of planes side by side, each plane's to its index at(plane); `spare` has room for those of planes not there.
template <class S, class C, class At>
void store_plane_codes(void* winners, int bytes, const C* codes, int64_t columns, int there, C* spare, const At& at) {
    visit_winners<C, S>(winners, bytes, [&](const auto* typed) {
        using W = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
        W* to[kPlanes<C>];
        for (int p = 0; p < kPlanes<C>; ++p) to[p] = p < there ? const_cast<W*>(typed) + at(p) : reinterpret_cast<W*>(spare);
        store_planes<C, W>(to, codes, columns);
    });
}

template <class S, class V, class C, bool coded>
void max_forward_with(const MaxCall& call) {
    const MaxSpace space(call.layout);
    Tiling tiling{{space.outer, space.depth.output_size(), space.height.output_size(), space.width.output_size(), space.inner}, {}};
    if (tiling.empty()) return;
    const Best<S, V, C, coded> best(call, space, true);
    const int64_t traffic = space.inputs() * int64_t(sizeof(S)) + space.outputs() * (int64_t(sizeof(S)) + call.winner_bytes);
    tiling.tile = {1, tiling.extent[1], tiling.extent[2], best.tile(), best.run()};
    const int64_t bytes = divide_up(traffic, tiling.elements());
    tiling.extent[0] = divide_up(tiling.extent[0], best.planes());
    if (space.depth.longest_window() > 1) tiling.tile[2] = std::min(tiling.extent[2], std::max<int64_t>(16, best.block()));
    balance(tiling, call.workers, bytes * best.planes());
    const Turn<V> sign(call, Type<S>());
    using Rooms = typename Best<S, V, C, coded>::Rooms;
    // A row, or several one after the other, at most; and what does not fill a line.
    const bool stream = call.values && best.planes() == 1 && space.outputs() * int64_t(sizeof(S)) >= kStreamBytes;
    const int64_t staged = stream ? best.most() + 512 : 0;
    Arena measure(nullptr);
    Rooms(best, measure);
    measure.take<S>(staged);
    run_boxes(tiling, call.workers, traffic, measure.used(), [&](const Box& box, std::byte* scratch) {
        Arena arena(scratch);
        Rooms rooms(best, arena);
        S* staging = arena.take<S>(staged);
        Writer<S> writer(static_cast<S*>(call.values), stream ? staging : nullptr, staged);
        const int64_t run = box.inner.size(), columns = box.width.size();
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
            best.rows(rooms, outer, box, [&](int64_t d, int64_t h, int64_t count, V* values, C* codes) {
                if constexpr (kWords<S, V>)
                    if (best.planes() > 1) {
                        // Turned back in place, then every plane's part to where it belongs.
                        store_values(values, values, columns * kPlanes<V>, sign);
                        S* to[kPlanes<V>];
                        const int64_t first = space.output_at(outer * kPlanes<V>, d, h, box.width.first), pitch = space.output_at(1, 0, 0, 0);
                        const auto at = [&](int p) { return first + p * pitch; };
                        const int64_t there = std::min<int64_t>(kPlanes<V>, space.outer - outer * kPlanes<V>);
                        for (int p = 0; p < kPlanes<V>; ++p) to[p] = p < there ? static_cast<S*>(call.values) + at(p) : rooms.spare;
                        if (call.values) store_planes<V, S>(to, values, columns);
                        if constexpr (coded)
                            store_plane_codes<S>(call.winners, call.winner_bytes, codes, columns, int(there), rooms.spare_codes, at);
                        return;
                    }
                // Whole rows lie one after the other, and whole inner runs.
                const int64_t rows = columns == space.width.output_size() ? 1 : count, pieces = run == space.inner ? 1 : columns;
                const int64_t length = count / rows * (columns / pieces) * run;
                for (int64_t i = 0; i < rows * pieces; ++i) {
                    const int64_t at = space.output_at(outer, d, h + i / pieces, box.width.first + i % pieces) + box.inner.first;
                    if (call.values) store_values(writer.row(at, length), values + i * length, length, sign);
                    if constexpr (coded) write_codes<S>(call.winners, call.winner_bytes, at, codes + i * length, length);
                }
            });
        writer.finish();
    });
}

template <class S, class V, class C>
void max_forward(const MaxCall& call) {
    if (call.winners) return max_forward_with<S, V, C, true>(call);
    if constexpr (std::is_integral_v<S> && sizeof(S) < 4 && sizeof(V) == 4) {
        // Where rows fill a register of them, small integers need no more room.
        const Axis& width = *call.layout.axes[2];
        if (call.layout.inner >= kLanes<S> || (call.layout.inner == 1 && width.rule() && width.input_size() >= 2 * kLanes<S>))
            return max_forward_with<S, S, std::make_unsigned_t<S>, false>(call);
    }
    max_forward_with<S, V, C, false>(call);
}

}  // namespace poolgrad::POOLGRAD_ISA
