// Maxima and winners, axis by axis: rows of the source along width, kept in a ring; these along height; these along depth.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// values, codes <- the first maximum of rows of maxima so far, from the index `first` on; values are turned.
template <bool coded, class V, class C>
POOLGRAD_NOINLINE void best_of_best(const BestRow<V, C>* rows, int64_t count, int64_t first, int64_t length, bool nan, Turn<V> turn,
                                    V* values, C* codes) {
    const auto fold = [&](auto careful, auto terms) POOLGRAD_LAMBDA {
        BestRow<V, C> few[careful() ? 1 : 3];  // where there are but three, they are kept in registers
        constexpr bool constant = !std::is_same_v<decltype(terms), int64_t>;
        if constexpr (constant) std::copy_n(rows, 3, few);
        const BestRow<V, C>* const all = constant ? few : rows;
        each_column<V>(length, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            Vector<V, lanes> best = load<V, lanes>(all[0].values + first + at);
            Vector<C, lanes> code{};
            const auto code_of = [&](int64_t t) POOLGRAD_LAMBDA {
                return Vector<C, lanes>(load<C, lanes>(all[t].codes + first + at) + spread<C, lanes>(all[t].add));
            };
            if constexpr (coded) code = code_of(0);
            for (int64_t t = 1; t < terms; ++t) {
                const Vector<V, lanes> x = load<V, lanes>(all[t].values + first + at);
                if constexpr (coded || careful()) {
                    const Mask<V, lanes> mask = careful() ? better<V, lanes>(x, best) : Mask<V, lanes>(x > best);
                    if constexpr (coded) code = select<C, lanes>(mask, code_of(t), code);
                    best = careful() ? select<V, lanes>(mask, x, best) : larger<V, lanes>(x, best);
                } else {
                    best = larger<V, lanes>(x, best);
                }
            }
            store<V, lanes>(values + at, turn.template turn<lanes>(best));
            if constexpr (coded) store<C, lanes>(codes + at, code);
        });
    };
    if constexpr (std::is_floating_point_v<V>) {
        if (nan) return fold(std::true_type(), count);
        if (count == 3) return fold(std::false_type(), Constant<3>());
    }
    fold(std::false_type(), count);
}

// Values of a row, turned, to another type: back to how they are stored.
template <class V, class To, class From>
void store_values(To* to, const From* from, int64_t count, Turn<V> sign) {
    each_column<V>(count, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        store<V, lanes>(to + at, sign.template turn<lanes>(load<V, lanes>(from + at)));
    });
}

// Where nothing is to be turned or converted.
template <class S, class V>
bool put_as_found(Writer<S>& writer, int64_t at, const V* values, int64_t length, Turn<V> sign) {
    if constexpr (std::is_same_v<S, V>)
        if (!sign.mask) return writer.put(at, values, length), true;
    return false;
}

// Makes rows of maxima for a box of outputs of one outer index (or kPlanes of them, side by side).
template <class S, class V, class C, bool coded>
class Best {
    static constexpr bool kShares = is_float<S> && !kPlain<S, V>;  // integers are not worth the code
    static constexpr int64_t kDirect = 16, kDirectOverlapping = 9;  // elements of a window searched in one pass

  public:
    Best(const MaxCall& call, const MaxSpace& space, bool planes, bool bundles = false)
        : call_(call), space_(space), sign_(call, Type<S>()), lines_(call, space) {
        const Rule* rule = space.width.rule();
        const int64_t elements = space.depth.longest_window() * space.height.longest_window() * space.width.longest_window();
        // Longer rows had better stay rows, unless there is but one to begin and end with.
        const int64_t rows = space.depth.output_size() * space.height.output_size();
        bundled_ = kBundles && bundles && space.inner == 1 && space.outer >= kPlanes<V> / 2 && elements <= kDirectOverlapping &&
                   std::max(space.input_at(1, 0, 0, 0), space.output_at(1, 0, 0, 0)) <= kBundle &&
                   (lines_.slides() ? 2 * space.width.output_size() <= kLanes<V>
                                    : !lines_.usable() || space.width.output_size() < 14 || (rows == 1 && rule && rule->stride > 1));
        side_by_side_ = bundled_ || (kWords<S, V> && planes && !lines_.usable() && space.inner == 1 && space.outer >= kPlanes<V> / 2 &&
                                     space.width.longest_window() <= 64 && (!rule || space.width.output_size() < 32 || rule->stride > 4));
        const int64_t inner = side_by_side_ ? kPlanes<V> : space.inner;
        constexpr int64_t room = (8 << 10) / int64_t(sizeof(V));  // elements of a row
        run_ = std::clamp<int64_t>(inner, 1, room);
        const int64_t columns = std::max<int64_t>(1, space.width.output_size());
        tile_ = std::clamp<int64_t>(room / run_, 1, columns);
        line_ = !kPlain<S, V> && rule && !side_by_side_ && run_ == space.inner && inner < 16 && rule->stride <= 8 && rule->window <= 64 &&
                rule->window <= rule->input_size && tile_ > 1;
        if (lines_.usable()) tile_ = std::min(tile_, lines_.tile());
        if (bundled_)
            tile_ = space.width.output_size();
        else if (side_by_side_)
            tile_ = std::min(tile_, fitting_tile(Side{&space.width, false}, kColumns));
        // Windows that do not overlap share nothing, and of small ones it is not worth it: they are searched in one pass.
        const auto apart = [](const Axis& axis) { return axis.longest_cover() == 1; };
        const bool all_apart = apart(space.depth) && apart(space.height) && apart(space.width);
        direct_ = !kPlain<S, V> && !line_ && !side_by_side_ && elements <= (all_apart ? kDirect : kDirectOverlapping);
        by_runs_ = all_apart && sign_.mask == 0 && run_ * int64_t(sizeof(S)) >= 512;
        if (rule) whole_last_ = (rule->input_size + rule->before - rule->window) / rule->stride + 1;
        constexpr int64_t others = Shared::kCount - 1;
        const Rule* down = space.height.rule();
        shares_height_ = kShares && down && down->stride == 1 && down->window > others && down->window + others <= kRows;
        ring_rows_ = std::min(space.height.longest_window() + (shares_height_ ? others : 0), kRows);
        depth_rows_ = std::min(space.depth.longest_window(), kRows / 2);
        constexpr int64_t bytes = int64_t(sizeof(V) + (coded ? sizeof(C) : 0));
        // Whole rows are read fastest: as long as those kept stay in the second cache, and there are boxes for all workers.
        if (passes() && !line_ && run_ == space.inner && ring_rows_ > 1) {
            const int64_t kept = std::min(kKept / (ring_rows_ * bytes) / (depth_rows_ > 1 ? 4 : 1), 2 * room * int64_t(sizeof(V)));
            const int64_t boxes = call.workers > 1 ? divide_up(4 * call.workers, std::max<int64_t>(1, space.outer)) : 1;
            const int64_t fewest = divide_up(columns, std::max(tile_, kept / run_)), most = divide_up(columns, tile_);
            tile_ = divide_up(columns, std::max(fewest, std::min(most, boxes)));
        }
        // Neighbouring blocks of heights share source rows: as high as their planes stay there too.
        block_ = depth_rows_ > 1 && !bundled_ ? std::clamp<int64_t>(kKept / (depth_rows_ * row_size() * bytes), 4, 32) : 1;
    }

    static constexpr bool kBundles = std::is_same_v<S, V> && kWords<S, V>;  // compiled only where it needs no code of its own

    int64_t run() const { return side_by_side_ ? 1 : run_; }
    int64_t tile() const { return tile_; }
    int64_t block() const { return block_; }
    bool keeps_rows() const { return lines_.keeps_rows(); }
    // Elements that a sink is given at once.
    int64_t most() const { return passes() ? piece_size() : std::max(row_size(), Lines<S, V, C, coded>::kRoom); }
    int planes() const { return side_by_side_ ? kPlanes<V> : 1; }

    // Where the elements of a window of these sizes lie, from its first one on, and their codes.
    struct Terms {
        Offset sizes{0, 0, 0};
        int count = 0;
        int64_t at[kDirect];
        C codes[kDirect];
    };
    struct Rooms {
        Rooms(const Best& job, Arena& arena) : lines(job.lines_, arena) {
            const int64_t size = job.pitch();
            ring_values = arena.take<V>(job.ring_rows_ * size), ring_codes = arena.take<C>(coded ? job.ring_rows_ * size : 0);
            ring_holds = arena.take<int64_t>(job.ring_rows_);
            const int64_t planes = job.block_ > 1 ? job.depth_rows_ * job.block_ : 0;
            plane_values = arena.take<V>(planes * size), plane_codes = arena.take<C>(coded ? planes * size : 0);
            plane_holds = arena.take<int64_t>(planes);
            // Rows of results, but pieces of them where they are made pass by pass.
            const int64_t passed = job.piece_size() * (job.shares_height_ ? Shared::kCount : 1);
            const int64_t results = job.bundled_ ? job.space_.output_at(1, 0, 0, 0) * kPlanes<V> : job.direct_ ? size : passed;
            values = arena.take<V>(results), codes = arena.take<C>(results), stored = arena.take<S>(job.direct_ ? size : 0);
            const bool too_long[2] = {job.space_.height.longest_window() > job.ring_rows_, job.space_.depth.longest_window() > job.depth_rows_};
            for (int i = 0; i < 2; ++i)
                partial_values[i] = arena.take<V>(too_long[i] ? size : 0), partial_codes[i] = arena.take<C>(too_long[i] ? size : 0);
            const int64_t stride = job.line_ ? job.space_.width.rule()->stride : 1;
            const int64_t line = job.line_ ? ((job.tile_ + 1) * stride + job.space_.width.rule()->window) * job.run_ : 0;
            padded = arena.take<S>(line), phases = arena.take<S>(stride > 1 ? 2 * line : 0);
            if (job.side_by_side_)
                joined = arena.take<V>((job.bundled_ ? kBundle : kColumns) * kPlanes<V>), spare = arena.take<S>(results / kPlanes<V>),
                spare_codes = arena.take<C>(results / kPlanes<V>);
        }
        typename Lines<S, V, C, coded>::Rooms lines;
        V *ring_values, *plane_values, *values, *partial_values[2], *joined = nullptr;  // partial: of windows too long for one pass
        C *ring_codes, *plane_codes, *codes, *partial_codes[2];
        int64_t *ring_holds, *plane_holds;
        S *stored, *padded, *phases, *spare = nullptr;  // spare: room for results of planes that are not there
        C* spare_codes = nullptr;
        Range outputs{0, 0}, inner{0, 0};  // of the box
        bool nan = false;                  // one may have been met in the box
        Terms terms[4];
        std::pair<int64_t, int64_t> joined_plane{-1, -1};  // (outer, depth) and heights that lie side by side in `joined`
        Range joined_rows{0, 0};
    };

    // sink(outer, d, h, count, at, length, values, codes) for every output row of the box, [width][inner], or `count` of them one after the
    // other, or for the elements of a row from `at` on: depth by depth, but for windows of several depths in blocks of heights.
    template <class Sink>
    void rows(Rooms& rooms, Range outers, const Box& box, const Sink& sink) const {
        if constexpr (!kPlain<S, V>)
            if (lines_.usable()) return as_lines(rooms, outers, box, sink);
        for (int64_t outer = outers.first; outer < outers.last; ++outer) carefully(rooms, outer, box, sink);
    }

    // Other windows in passes, the last of which writes where the results belong if they are of V: to(d, h, i, at) for some elements of a
    // row, the i-th of those made together, and then made(d, h, at, length, that place, codes).
    bool passes() const { return !lines_.usable() && !side_by_side_ && !direct_; }
    int64_t piece_size() const { return std::min(row_size(), 2 * kPiece); }
    using To = Reference<V*(int64_t, int64_t, int64_t, int64_t)>;
    using Made = Reference<void(int64_t, int64_t, int64_t, int64_t, V*, C*)>;
    void pass(Rooms& rooms, int64_t outer, const Box& box, Turn<V> turn, To to, Made made) const {
        rooms.outputs = box.width;
        rooms.joined_plane = {-1, -1};
        rooms.nan = coded && std::is_floating_point_v<V> && (line_ || !kShares);  // these are not looked at
        rooms.inner = side_by_side_ ? Range{0, kPlanes<V>} : box.inner;
        if (line_) std::fill_n(rooms.padded, line_length(box.width) * space_.inner, lowest());
        const int64_t length = box.width.size() * rooms.inner.size();
        int64_t d = 0, h = 0;
        const auto place = [&](int64_t i, int64_t at) { return Both{to(d, h + i, i, at), rooms.codes + i * piece_size()}; };
        const auto done = [&](int64_t i, int64_t at, int64_t count, Both found) { made(d, h + i, at, count, found.values, found.codes); };
        if (block_ == 1) {
            for (d = box.depth.first; d < box.depth.last; ++d) {
                std::fill_n(rooms.ring_holds, ring_rows_, -1);
                const int64_t z = space_.depth.window(d).first;
                for (h = box.height.first; h < box.height.last;)
                    h += along_height(rooms, outer, z, box.height.first, {h, box.height.last}, length, turn, place, done);
            }
            return;
        }
        for (int64_t first = box.height.first; first < box.height.last; first += block_) {
            const Range heights{first, std::min(first + block_, box.height.last)};
            std::fill_n(rooms.plane_holds, depth_rows_ * block_, -1);
            for (d = box.depth.first; d < box.depth.last; ++d)
                for (h = heights.first; h < heights.last; ++h) along_depth(rooms, outer, d, h, heights, length, turn, place, done);
        }
    }

    // Windows of few elements are searched in one pass, straight into where the results belong: sink(d, h, outputs, search) for every row
    // of the box, or a part of it, which calls search(S* results).
    bool direct() const { return direct_ && !lines_.usable(); }
    bool lines() const { return !kPlain<S, V> && lines_.usable(); }
    // Outputs of a row in a box: rows that are read again stay in the second cache.
    int64_t strip() const {
        const int64_t rows = space_.height.longest_cover() > 1 ? space_.depth.longest_window() * space_.height.longest_window() : 0;
        return rows ? std::max(tile_, fitting_tile(Side{&space_.width, false}, (256 << 10) / (rows * run_ * int64_t(sizeof(S)))))
                    : space_.width.output_size();
    }
    template <class Sink>
    void straight(Rooms& rooms, int64_t outer, const Box& box, const Sink& sink) const {
        const S* source = static_cast<const S*>(call_.source) + space_.input_at(outer, 0, 0, 0);
        rooms.nan = false;
        rooms.inner = box.inner;
        for (int64_t d = box.depth.first; d < box.depth.last; ++d)
            for (int64_t h = box.height.first; h < box.height.last; ++h)
                for (Range part{box.width.first, 0}; part.first < box.width.last; part.first = part.last) {
                    part.last = std::min(part.first + tile_, box.width.last);
                    sink(d, h, part, [&](S* results) { at_once(rooms, source, 1, d, h, part, results, rooms.codes); });
                }
    }

    // Small planes whole and side by side: sink(index of the first result in its plane, columns, values, codes), values as they are stored.
    bool bundled() const { return bundled_; }
    template <class Sink>
    void bundle(Rooms& rooms, int64_t group, const Box& box, const Sink& sink) const {
        const S* from[kPlanes<V>];
        for (int p = 0; p < kPlanes<V>; ++p)
            from[p] = static_cast<const S*>(call_.source) + space_.input_at(std::min(group * kPlanes<V> + p, space_.outer - 1), 0, 0, 0);
        load_planes<V, S>(rooms.joined, from, space_.input_at(1, 0, 0, 0));
        rooms.nan = false;
        rooms.inner = {0, kPlanes<V>};
        const bool whole = box.height.size() == space_.height.output_size() && box.width.size() == space_.width.output_size();
        int64_t columns = 0;
        for (int64_t d = box.depth.first; d < box.depth.last; ++d)
            for (int64_t h = box.height.first; h < box.height.last; ++h) {
                const int64_t filled = columns * kPlanes<V>;
                at_once(rooms, rooms.joined, kPlanes<V>, d, h, box.width, rooms.values + filled, rooms.codes + filled);
                columns += box.width.size();
                if (whole && (d + 1 < box.depth.last || h + 1 < box.height.last)) continue;
                sink(space_.output_at(0, whole ? box.depth.first : d, whole ? 0 : h, box.width.first), columns, rooms.values, rooms.codes);
                columns = 0;
            }
    }

  private:
    template <class Sink>
    void as_lines(Rooms& rooms, Range outers, const Box& box, const Sink& sink) const {
        if (box.depth.empty() || box.height.empty() || box.width.empty()) return;  // no output reaches these inputs
        lines_.prepare(rooms.lines, box.width);
        // Small depths, and planes, are taken together.
        const int64_t high = box.height.size(), block = rooms.lines.block;
        const bool flat = lines_.slides() && high <= kSlideHeights && high == space_.height.output_size();
        const bool whole = flat && box.depth.size() == space_.depth.output_size();
        const int64_t deep = flat ? std::clamp<int64_t>(block / high, 1, box.depth.size()) : 1;
        const int64_t planes = whole && deep == box.depth.size() ? std::clamp<int64_t>(block / (high * deep), 1, outers.size()) : 1;
        const int64_t most = lines_.slides() ? std::min(block, kSlideHeights) : block;
        const auto next = [](Range now, int64_t step, Range all) { return Range{now.last, std::min(now.last + step, all.last)}; };
        for (Range o = next({0, outers.first}, planes, outers); !o.empty(); o = next(o, planes, outers))
            for (Range d = next({0, box.depth.first}, deep, box.depth); !d.empty(); d = next(d, deep, box.depth))
                for (Range h = next({0, box.height.first}, most, box.height); !h.empty(); h = next(h, most, box.height))
                    if (lines_.find(rooms.lines, o, d, h, box.width))
                        sink(o.first, d.first, h.first, o.size() * d.size() * h.size(), int64_t(0), box.width.size() * space_.inner,
                             rooms.lines.packed.values, rooms.lines.packed.codes);
                    else
                        for (int64_t outer = o.first; outer < o.last; ++outer)
                            carefully(rooms, outer, {box.outer, d, h, box.width, box.inner}, sink);
    }

    template <class Sink>
    void carefully(Rooms& rooms, int64_t outer, const Box& box, const Sink& sink) const {
        if constexpr (!kPlain<S, V>)
            if (direct_)
                return straight(rooms, outer, box, [&](int64_t d, int64_t h, Range, const auto& search) {
                    const int64_t length = box.width.size() * box.inner.size();
                    search(rooms.stored);
                    if (call_.expected || call_.values) store_values(rooms.values, static_cast<const S*>(rooms.stored), length, sign_);
                    sink(outer, d, h, 1, int64_t(0), length, rooms.values, rooms.codes);
                });
        pass(
            rooms, outer, box, as_found(), [&](int64_t, int64_t, int64_t i, int64_t) { return rooms.values + i * piece_size(); },
            [&](int64_t d, int64_t h, int64_t at, int64_t length, V* values, C* codes) { sink(outer, d, h, 1, at, length, values, codes); });
    }

    Turn<V> as_found() const {
        Turn<V> none = sign_;
        none.mask = 0;
        return none;
    }

    static constexpr int64_t kRows = 64;      // of maxima that are kept, along height; half as many along depth
    static constexpr int64_t kPiece = coded ? 1024 : 4096;  // elements of a row that are made at once, and up to twice as many
    static constexpr int64_t kKept = 768 << 10;  // bytes of rows that are kept
    static constexpr int64_t kColumns = 512, kBundle = 1024;  // source columns of planes side by side; of whole planes
    int64_t row_size() const { return tile_ * run_; }
    // From row to row that is kept: an odd number of lines, or they would fall into few sets of the first cache.
    int64_t pitch() const {
        constexpr int64_t line = 64 / int64_t(sizeof(V));
        return (divide_up(row_size(), line) | 1) * line;
    }

    // Below everything, so that it never beats a value; where it equals one, the codes are mended (line_along_width).
    S lowest() const {
        S result;
        if constexpr (is_float<S>)
            store<V, 1>(&result, sign_.template turn<1>(-std::numeric_limits<V>::infinity()));
        else
            store<V, 1>(&result, sign_.template turn<1>(std::numeric_limits<S>::lowest()));
        return result;
    }

    // The maxima so far of `many` neighbouring registers. (Arrays of them would be kept in memory.)
    template <bool careful, int lanes, int many>
    struct Running {
        Vector<V, lanes> best;
        Vector<C, lanes> code{};
        Running<careful, lanes, many - 1> others;

        POOLGRAD_INLINE Running(const S* from, Turn<V> sign)
            : best(sign.template turn<lanes>(load<V, lanes>(from))), others(from + lanes, sign) {}
        POOLGRAD_INLINE void take(const S* from, C its_code, Turn<V> sign, Odd<V>& odd) {
            const Vector<V, lanes> x = sign.template turn<lanes>(load<V, lanes>(from));
            if constexpr (careful) {
                const auto mask = better<V, lanes>(x, best);
                best = select<V, lanes>(mask, x, best);
                if constexpr (coded) code = select<C, lanes>(mask, spread<C, lanes>(its_code), code);
            } else {
                if constexpr (std::is_floating_point_v<V>) odd.template note<lanes>(unordered<V, lanes>(x, best));
                best = larger<V, lanes>(x, best);
            }
            others.take(from + lanes, its_code, sign, odd);
        }
        POOLGRAD_INLINE void put(S* values, C* codes, Turn<V> sign) const {
            store<V, lanes>(values, sign.template turn<lanes>(best));
            if constexpr (coded) store<C, lanes>(codes, code);
            others.put(values + lanes, codes + lanes, sign);
        }
    };
    template <bool careful, int lanes>
    struct Running<careful, lanes, 0> {
        POOLGRAD_INLINE Running(const S*, Turn<V>) {}
        POOLGRAD_INLINE void take(const S*, C, Turn<V>, Odd<V>&) {}
        POOLGRAD_INLINE void put(S*, C*, Turn<V>) const {}
    };

    // The maxima of neighbouring windows, `step` elements apart.
    template <bool careful>
    POOLGRAD_NOINLINE bool fold_windows(const S* from, const int64_t* terms, const C* term_codes, int count, int64_t windows, int64_t step,
                                        int64_t run, S* values, C* codes) const {
        constexpr int lanes = kLanes<V>;
        const Turn<V> sign = sign_;
        Odd<V> odd;
        const auto fold = [&](auto size, auto registers, int64_t at) POOLGRAD_LAMBDA {
            Running<careful, size(), registers()> best(from + at, sign);
            if (!careful && count == 1) best.take(from + at, C(0), sign, odd);
            for (int t = 1; t < count; ++t) best.take(from + terms[t] + at, coded ? term_codes[t] : C(0), sign, odd);
            best.put(values + at, codes + at, sign);
        };
        for (; windows > 0; --windows, from += step, values += run, codes += run) {
            if constexpr (!coded && !careful)
                if (by_runs_ && count > 1) {
                    fold_runs(from, terms, count, run, values, odd);
                    continue;
                }
            int64_t at = 0;
            if constexpr (coded || !careful)
                for (; at + 4 * lanes <= run; at += 4 * lanes) fold(Constant<lanes>(), Constant<4>(), at);
            if (run >= 2 * lanes)  // the last registers overlap those before
                for (; at < run; at += 2 * lanes) fold(Constant<lanes>(), Constant<2>(), std::min(at, run - 2 * lanes));
            else if (run >= lanes)
                for (; at < run; at += lanes) fold(Constant<lanes>(), Constant<1>(), std::min(at, run - lanes));
            else
                for (; at < run; ++at) fold(Constant<1>(), Constant<1>(), at);
        }
        return !odd.seen();
    }

    // Values that need no turn, of windows that share nothing, one long run after the other: of several at once the CPU foresees none.
    POOLGRAD_INLINE void fold_runs(const S* from, const int64_t* terms, int count, int64_t run, S* values, Odd<V>& odd) const {
        for (int t = 1; t < count; ++t) {
            const S *before = t == 1 ? from : values, *term = from + terms[t];
            each_column<V>(run, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
                constexpr int lanes = decltype(lanes_of)::value;
                const auto best = load<V, lanes>(before + at), x = load<V, lanes>(term + at);
                if constexpr (std::is_floating_point_v<V>) odd.template note<lanes>(unordered<V, lanes>(x, best));
                store<V, lanes>(values + at, larger<V, lanes>(x, best));
            });
        }
    }

    // The lists for whole and for clipped windows are kept.
    const Terms& listed(Rooms& rooms, int64_t deep, int64_t high, int64_t wide, int64_t pitch) const {
        Terms& terms = rooms.terms[(high == space_.height.longest_window()) * 2 + (wide == space_.width.longest_window())];
        if (terms.sizes.depth == deep && terms.sizes.height == high && terms.sizes.width == wide) return terms;
        terms.sizes = {deep, high, wide}, terms.count = 0;
        for (int64_t z = 0; z < deep; ++z)
            for (int64_t y = 0; y < high; ++y)
                for (int64_t x = 0; x < wide; ++x, ++terms.count) {
                    terms.at[terms.count] = space_.input_at(0, z, y, x) * pitch;
                    terms.codes[terms.count] =
                        C(uint64_t(z) * space_.step[0] + uint64_t(y) * space_.step[1] + uint64_t(x) * space_.step[2]);
                }
        return terms;
    }

    // The maxima of a row, or a part of it, of a source whose elements lie `pitch` apart.
    void at_once(Rooms& rooms, const S* source, int64_t pitch, int64_t d, int64_t h, Range outputs, S* values, C* codes) const {
        const Range depth = space_.depth.window(d), height = space_.height.window(h);
        const Rule* rule = space_.width.rule();
        const int64_t run = rooms.inner.size();
        for (int64_t w = outputs.first, windows = 1; w < outputs.last; w += windows, values += windows * run, codes += windows * run) {
            const Range width = space_.width.window(w);
            const Terms& terms = listed(rooms, depth.size(), height.size(), width.size(), pitch);
            // Whole windows follow each other at the stride.
            const bool whole = rule && width.size() == rule->window;
            windows = whole ? std::min(outputs.last, whole_last_) - w : 1;
            const int64_t step = whole ? rule->stride * space_.inner * pitch : 0;
            const S* from = source + space_.input_at(0, depth.first, height.first, width.first) * pitch + rooms.inner.first;
            if constexpr (!coded)
                if (!rooms.nan)
                    rooms.nan = !fold_windows<false>(from, terms.at, terms.codes, terms.count, windows, step, run, values, codes);
            if constexpr (coded || std::is_floating_point_v<V>)  // from its first NaN on, a box is looked at more slowly
                if (coded || rooms.nan) fold_windows<true>(from, terms.at, terms.codes, terms.count, windows, step, run, values, codes);
        }
    }

    struct Both {
        V* values;
        C* codes;
    };
    using Place = Reference<Both(int64_t, int64_t)>;
    using Done = Reference<void(int64_t, int64_t, int64_t, Both)>;
    // Calls piece(at, length) for all of a row.
    template <class Piece>
    static void in_pieces(int64_t length, const Piece& piece) {
        for (int64_t at = 0, count; at < length; at += count) {
            count = length - at <= 2 * kPiece ? length - at : kPiece;
            piece(at, count);
        }
    }

    // The first row of outputs, or some if they share: returns how many. to(i, at) tells where the elements of row i from `at` on go, and
    // done(i, at, length, there) that they are. Rows are folded in portions of the ring's size, the maxima so far going first into the next
    // portion. `start`: that of the box.
    int64_t along_height(Rooms& rooms, int64_t outer, int64_t d, int64_t start, Range heights, int64_t length, Turn<V> turn, Place to,
                         Done done) const {
        BestRow<V, C> rows[kRows + 1];
        if constexpr (kShares) {
            Shared shared;
            // The last few share with some that are there already.
            const int64_t there = std::max<int64_t>(0, Shared::kCount - heights.size());
            if (shares_height_ && length >= kLanes<V> && heights.first - there >= start &&
                shared.find(space_.height, {heights.first - there, heights.last})) {
                const Range all = shared.all();
                for (int64_t y = all.first; y < all.last; ++y) rows[y - all.first] = ring_row(rooms, outer, d, y, all.first);
                if (!rooms.nan) {
                    in_pieces(length, [&](int64_t at, int64_t count) {
                        Both places[Shared::kCount];
                        for (int64_t i = there; i < Shared::kCount; ++i) places[i] = to(i - there, at);
                        best_of_shared(shared, rows, at, count, turn, int(there), places);
                        for (int64_t i = there; i < Shared::kCount; ++i) done(i - there, at, count, places[i]);
                    });
                    return Shared::kCount - there;
                }
            }
        }
        const Range window = space_.height.window(heights.first);
        const auto row = [&](int64_t y) { return ring_row(rooms, outer, d, y, window.first); };
        fold_portions(rooms, 0, window, ring_rows_, length, turn, row, to, done);
        return 1;
    }
    void fold_portions(Rooms& rooms, int which, Range window, int64_t most, int64_t length, Turn<V> turn,
                       Reference<BestRow<V, C>(int64_t)> row, Place to, Done done) const {
        BestRow<V, C> rows[kRows + 1];
        for (int64_t first = window.first; first < window.last; first += most) {
            int64_t count = 0;
            const Both partial{rooms.partial_values[which], rooms.partial_codes[which]};
            if (first != window.first) rows[count++] = {partial.values, partial.codes, C(0)};
            for (int64_t y = first; y < std::min(first + most, window.last); ++y) rows[count++] = row(y);
            if (first + most < window.last) {
                best_of_best<coded>(rows, count, 0, length, rooms.nan, as_found(), partial.values, partial.codes);
                continue;
            }
            in_pieces(length, [&](int64_t at, int64_t pieces) {
                const Both found = to(0, at);
                best_of_best<coded>(rows, count, at, pieces, rooms.nan, turn, found.values, found.codes);
                done(0, at, pieces, found);
            });
        }
    }
    BestRow<V, C> ring_row(Rooms& rooms, int64_t outer, int64_t d, int64_t y, int64_t start) const {
        const int64_t place = y % ring_rows_;
        V* row = rooms.ring_values + place * pitch();
        C* codes = rooms.ring_codes + place * pitch();
        if (rooms.ring_holds[place] != y) along_width(rooms, outer, d, y, row, codes);
        rooms.ring_holds[place] = y;
        return {row, codes, C(uint64_t(y - start) * space_.step[1])};
    }
    // Without NaN; those before `there` are not wanted.
    POOLGRAD_NOINLINE void best_of_shared(const Shared& shared, const BestRow<V, C>* rows, int64_t from, int64_t length, Turn<V> turn,
                                          int there, const Both* to) const {
        constexpr int lanes = kLanes<V>;
        const int64_t first = shared.all().first;
        fold_in_order<coded, V, C>(
            shared, length, C(space_.step[1]),
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return load<V, lanes>(rows[y - first].values + from + at); },
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return load<C, lanes>(rows[y - first].codes + from + at); },
            [&](int64_t at, int i, Vector<V, lanes> best, Vector<C, lanes> code) POOLGRAD_LAMBDA {
                if (i < there) return;
                store<V, lanes>(to[i].values + at, turn.template turn<lanes>(best));
                if constexpr (coded) store<C, lanes>(to[i].codes + at, code);
            });
    }

    void along_depth(Rooms& rooms, int64_t outer, int64_t d, int64_t h, Range heights, int64_t length, Turn<V> turn, Place to,
                     Done done) const {
        const Range window = space_.depth.window(d);
        fold_portions(
            rooms, 1, window, depth_rows_, length, turn,
            [&](int64_t z) {
                const int64_t start = z % depth_rows_ * block_;
                const auto place = [&](int64_t y, int64_t at) {
                    const int64_t index = (start + y - heights.first) * pitch() + at;
                    return Both{rooms.plane_values + index, rooms.plane_codes + index};
                };
                if (rooms.plane_holds[start + h - heights.first] != z) {
                    std::fill_n(rooms.ring_holds, ring_rows_, -1);
                    for (int64_t y = heights.first; y < heights.last;)
                        y += along_height(
                            rooms, outer, z, heights.first, {y, heights.last}, length, as_found(),
                            [&](int64_t i, int64_t at) { return place(y + i, at); },
                            [](int64_t, int64_t, int64_t, Both) {});
                    std::fill_n(rooms.plane_holds + start, heights.size(), z);
                }
                const Both row = place(h, 0);
                return BestRow<V, C>{row.values, row.codes, C(uint64_t(z - window.first) * space_.step[0])};
            },
            to, done);
    }

    // One source row.
    void along_width(Rooms& rooms, int64_t outer, int64_t d, int64_t h, V* values, C* codes) const {
        const S* row = static_cast<const S*>(call_.source) + space_.input_at(outer, d, h, 0) + rooms.inner.first;
        if constexpr (kWords<S, V>)
            if (side_by_side_) return planes_along_width(rooms, outer, d, h, values, codes);
        const int64_t run = rooms.inner.size();
        const Range outputs = rooms.outputs, columns = Side{&space_.width, false}.range(outputs);
        if constexpr (!kPlain<S, V>)
            if (line_) return line_along_width(rooms, row, values, codes);
        const bool shares = kShares && run >= kLanes<V> && space_.width.longest_cover() >= Shared::kCount;
        // Looked for once, and in the order of memory: after that the row is in the cache.
        if constexpr (kShares)
            for (int64_t x = columns.first; x < columns.last && shares && !rooms.nan; x += run == space_.inner ? columns.size() : 1)
                rooms.nan = has_nan(row + x * space_.inner, run == space_.inner ? columns.size() * run : run);
        for (int64_t w = outputs.first, count; w < outputs.last; w += count) {
            const auto to = [&](int64_t output) { return (output - outputs.first) * run; };
            if constexpr (kShares) {
                Shared shared;
                // The last few share with some that are there already.
                const int64_t first = std::max(outputs.first, std::min(w, outputs.last - Shared::kCount));
                if (shares && !rooms.nan && shared.find(space_.width, {first, outputs.last})) {
                    share_width(shared, row, run, values + to(first), codes + to(first));
                    count = first + Shared::kCount - w;
                    continue;
                }
            }
            const Range window = space_.width.window(w);
            // Windows one element apart follow each other in memory as their elements do.
            for (count = 1; run == space_.inner && w + count < outputs.last; ++count) {
                const Range next = space_.width.window(w + count);
                if (next.first != window.first + count || next.last != window.last + count) break;
            }
            if (shares && !rooms.nan) count = 1;
            const PitchRows<S> rows{row + window.first * space_.inner, space_.inner};
            best(rooms, rows, window.size(), count * run, values + to(w), codes + to(w));
        }
    }
    template <class T>
    POOLGRAD_NOINLINE static bool has_nan(const T* row, int64_t length) {
        Odd<V> odd;
        each_column<V>(length, [&](auto lanes, int64_t at) POOLGRAD_LAMBDA {
            const auto x = load<V, lanes()>(row + at);
            odd.template note<lanes()>(unordered<V, lanes()>(x, x));
        });
        return odd.seen();
    }
    POOLGRAD_NOINLINE void share_width(const Shared& shared, const S* row, int64_t run, V* values, C* codes) const {
        constexpr int lanes = kLanes<V>;
        const Turn<V> sign = sign_;
        const int64_t inner = space_.inner;
        fold_in_order<coded, V, C>(
            shared, run, C(space_.step[2]),
            [=](int64_t at, int64_t x) POOLGRAD_LAMBDA { return sign.template turn<lanes>(load<V, lanes>(row + x * inner + at)); },
            [](int64_t, int64_t) POOLGRAD_LAMBDA { return Vector<C, lanes>{}; },
            [=](int64_t at, int i, Vector<V, lanes> best, Vector<C, lanes> code) POOLGRAD_LAMBDA {
                store<V, lanes>(values + i * run + at, best);
                if constexpr (coded) store<C, lanes>(codes + i * run + at, code);
            });
    }
    template <class Rows>
    POOLGRAD_NOINLINE void best(Rooms& rooms, const Rows& rows, int64_t count, int64_t length, V* values, C* codes) const {
        const C step = C(space_.step[2]);
        // Three in a row are worth code of their own; so are winners of floats without NaN.
        constexpr bool few = std::is_same_v<Rows, PitchRows<S>> && (!coded || kShares);
        first_of_rows<few>(rooms, rows, [=](int64_t t) POOLGRAD_LAMBDA { return C(C(t) * step); }, count, length, values, codes);
    }

    // The first maximum of rows of the source; without codes and NaN that is the largest. From its first NaN on, a box is looked at
    // more slowly.
    template <bool few = false, class Rows, class Code>
    POOLGRAD_INLINE void first_of_rows(Rooms& rooms, const Rows& rows, const Code& code_of, int64_t count, int64_t length, V* values,
                                       C* codes) const {
        const Turn<V> sign = sign_;
        if constexpr (!coded || few)
            if (!rooms.nan) {
                Odd<V> odd;
                const auto largest = [&](auto terms) POOLGRAD_LAMBDA {
                    if constexpr (coded)
                        first_of_sources<true>(rows, code_of, terms, sign, length, values, codes, odd);
                    else
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
        if constexpr ((coded && !few) || std::is_floating_point_v<V>)
            if ((coded && !few) || rooms.nan) best_of_rows<coded>(rows, code_of, count, sign, length, values, codes);
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
            if constexpr (coded && std::is_floating_point_v<V>) rooms.nan = rooms.nan || has_nan(rooms.joined, columns.size() * rows * kPlanes<V>);
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
    bool bundled_, side_by_side_, line_, direct_, by_runs_, shares_height_;
    int64_t whole_last_ = 0;  // behind the last window of width that is not clipped at its end
    int64_t run_, tile_, ring_rows_, depth_rows_, block_;
};

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
    const Best<S, V, C, coded> best(call, space, true, true);
    const int64_t traffic = space.inputs() * int64_t(sizeof(S)) + space.outputs() * (int64_t(sizeof(S)) + call.winner_bytes);
    tiling.tile = {1, tiling.extent[1], tiling.extent[2], best.direct() ? best.strip() : best.tile(), best.run()};
    const int64_t bytes = divide_up(traffic, tiling.elements());
    tiling.extent[0] = divide_up(tiling.extent[0], best.planes());
    if (space.depth.longest_window() > 1 && !best.bundled() && !best.keeps_rows())
        tiling.tile[2] = std::min(tiling.extent[2], divide_up(16, best.block()) * best.block());
    balance(tiling, call.workers, bytes * best.planes());
    const Turn<V> sign(call, Type<S>());
    using Rooms = typename Best<S, V, C, coded>::Rooms;
    // A row, or several one after the other, at most; and what does not fill a line. Results that fit the caches are not streamed: they are
    // few beside what is read.
    const bool stream = call.values && best.planes() == 1 && space.outputs() * int64_t(sizeof(S)) >= 32 << 20;
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
        // Every plane's part to where it belongs.
        const auto store_group = [&](int64_t group, int64_t index, int64_t count, const V* values, const C* codes) {
            const int64_t first = space.output_at(group * kPlanes<V>, 0, 0, 0) + index, pitch = space.output_at(1, 0, 0, 0);
            const auto at = [&](int p) { return first + p * pitch; };
            const int64_t there = std::min<int64_t>(kPlanes<V>, space.outer - group * kPlanes<V>);
            S* to[kPlanes<V>];
            for (int p = 0; p < kPlanes<V>; ++p) to[p] = p < there ? static_cast<S*>(call.values) + at(p) : rooms.spare;
            if (call.values) store_planes<V, S>(to, values, count);
            if constexpr (coded) store_plane_codes<S>(call.winners, call.winner_bytes, codes, count, int(there), rooms.spare_codes, at);
        };
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) {
            if constexpr (!kPlain<S, V>)
                if (best.direct()) {
                    best.straight(rooms, outer, box, [&](int64_t d, int64_t h, Range part, const auto& search) {
                        // Of parts of inner, one is given at a time.
                        const int64_t at = space.output_at(outer, d, h, part.first) + box.inner.first, length = part.size() * run;
                        search(call.values ? writer.row(at, length) : rooms.stored);
                        if constexpr (coded) write_codes<S>(call.winners, call.winner_bytes, at, rooms.codes, length);
                    });
                    continue;
                }
            if constexpr (Best<S, V, C, coded>::kBundles)
                if (best.bundled()) {
                    best.bundle(rooms, outer, box, [&](auto... found) { store_group(outer, found...); });
                    continue;
                }
            if constexpr (std::is_same_v<S, V>)
                if (best.passes()) {
                    // Streamed pieces go from where they were made.
                    const auto at = [&](int64_t d, int64_t h, int64_t from) {
                        return space.output_at(outer, d, h, box.width.first) + box.inner.first + from;
                    };
                    V* const results = stream ? nullptr : static_cast<V*>(call.values);
                    best.pass(
                        rooms, outer, box, sign,
                        [&](int64_t d, int64_t h, int64_t i, int64_t from) {
                            return results ? results + at(d, h, from) : rooms.values + i * best.piece_size();
                        },
                        [&](int64_t d, int64_t h, int64_t from, int64_t length, V* values, C* codes) {
                            if (stream) writer.put(at(d, h, from), values, length);
                            if constexpr (coded) write_codes<S>(call.winners, call.winner_bytes, at(d, h, from), codes, length);
                        });
                    continue;
                }
            // Lines may be of all planes of the box.
            const Range planes = best.lines() ? box.outer : Range{outer, outer + 1};
            best.rows(rooms, planes, box, [&](int64_t first, int64_t d, int64_t h, int64_t count, int64_t from, int64_t elements, V* values, C* codes) {
                if constexpr (kWords<S, V>)
                    if (best.planes() > 1) {  // turned back in place
                        store_values(values, values, columns * kPlanes<V>, sign);
                        return store_group(outer, space.output_at(0, d, h, box.width.first), columns, values, codes);
                    }
                // Whole rows lie one after the other.
                const int64_t rows = columns == space.width.output_size() ? 1 : count, length = count / rows * elements;
                for (int64_t i = 0; i < rows; ++i) {
                    const int64_t at = space.output_at(first, d, h + i, box.width.first) + box.inner.first + from;
                    if (call.values && !put_as_found(writer, at, values + i * length, length, sign))
                        store_values(writer.row(at, length), values + i * length, length, sign);
                    if constexpr (coded) write_codes<S>(call.winners, call.winner_bytes, at, codes + i * length, length);
                }
            });
            if (best.lines()) break;
        }
        writer.finish();
    });
}

template <class S, class V, class C>
void max_forward(const MaxCall& call) {
    if (call.winners) return max_forward_with<S, V, C, true>(call);
    max_forward_with<S, V, C, false>(call);
}

}  // namespace poolgrad::POOLGRAD_ISA
