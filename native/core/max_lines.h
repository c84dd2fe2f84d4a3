// Maxima where inner is short (channels first, one channel): down first, row over row, then along width, all rows of a block as one line
// where width is regular, else by picking terms. That is not the row-major order, so codes decide between equals. Without codes equals differ in their
// bits only where a -0.0 is among them; that and NaN, which beats everything, is left to others.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// values, codes <- the first maximum of `count` rows, element by element; rows(t) and its code_of(t).
template <bool coded, class V, class C, class Rows, class Codes, class Count>
POOLGRAD_INLINE void first_of_sources(const Rows& rows, const Codes& code_of, Count count, Turn<V> sign, int64_t length, V* values, C* codes,
                                      Odd<V>& odd) {
    using Bits = typename Turn<V>::Bits;
    const auto term = [&](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA {
        const Vector<V, lanes()> raw = load<V, lanes()>(rows(t) + at);
        if constexpr (std::is_floating_point_v<V> && coded)
            odd.template note<lanes()>(unordered<V, lanes()>(raw, raw));
        else if constexpr (std::is_floating_point_v<V>)
            odd.template note<lanes()>(bit_copy<Vector<Bits, lanes()>>(raw) == spread<Bits, lanes()>(std::numeric_limits<Bits>::min()));
        return sign.template turn<lanes()>(raw);
    };
    if constexpr (coded)
        fold_rows<true>(
            count, length, values, codes, term, [&](auto lanes, int64_t t, int64_t) POOLGRAD_LAMBDA { return spread<C, lanes()>(code_of(t)); },
            [](auto, auto x, auto best, auto, auto) POOLGRAD_LAMBDA { return x > best; });
    else
        fold_largest(count, length, values, term, odd);
}

// The same of maxima without NaN: of equals the one with the smallest code.
template <bool coded, class V, class C>
POOLGRAD_NOINLINE void first_of_best(const BestRow<V, C>* rows, int64_t count, int64_t length, V* values, C* codes) {
    if constexpr (coded)
        fold_best<true>(rows, count, length, values, codes, [](auto, auto x, auto best, auto other, auto code) POOLGRAD_LAMBDA {
            return (x > best) | ((x == best) & (other < code));
        });
    else
        largest_of_best(rows, count, length, values);
}

// Neighbouring windows, each at most one element further than the one before, that have elements in common: these are folded once.
struct Shared {
    static constexpr int kCount = 4;
    Range windows[kCount];

    // Of the first outputs; false where it is not so.
    bool find(const Axis& axis, Range outputs) {
        if (axis.longest_cover() < kCount || outputs.size() < kCount) return false;
        bool close = true;
        for (int i = 0; i < kCount; ++i) {
            windows[i] = axis.window(outputs.first + i);
            if (i > 0) close &= windows[i].first - windows[i - 1].first <= 1 && windows[i].last - windows[i - 1].last <= 1;
        }
        return close && windows[kCount - 1].first < windows[0].last;
    }
    Range all() const { return {windows[0].first, windows[kCount - 1].last}; }

    // put(at, i, the first maximum of window i) for the registers of a row of at least one: of read(at, element), from which join(one, later
    // one) chooses. A cell that is read in turn begins as first(at, element), and next(at, element, it) is the one that follows.
    template <class V, class Read, class First, class Next, class Join, class Put>
    POOLGRAD_INLINE void fold(int64_t length, const Read& read, const First& first, const Next& next, const Join& join,
                              const Put& put) const {
        for (int64_t place = 0; place < length; place += kLanes<V>) {
            const int64_t at = std::min(place, length - kLanes<V>);
            auto cell = first(at, windows[kCount - 1].first);
            auto common = cell.found;
            for (int64_t y = windows[kCount - 1].first + 1; y < windows[0].last; ++y)
                cell = next(at, y, cell), common = join(common, cell.found);
            from<0>(
                common, [&](int64_t y) POOLGRAD_LAMBDA { return read(at, y); }, join,
                [&](int i, const auto& best) POOLGRAD_LAMBDA { put(at, i, best); });
        }
    }
    template <class V, class Read, class Join, class Put>
    POOLGRAD_INLINE void fold(int64_t length, const Read& read, const Join& join, const Put& put) const {
        using Cell = decltype(read(int64_t(0), int64_t(0)));
        struct Alone {
            Cell found;
        };
        fold<V>(
            length, read, [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return Alone{read(at, y)}; },
            [&](int64_t at, int64_t y, const Alone&) POOLGRAD_LAMBDA { return Alone{read(at, y)}; }, join, put);
    }

  private:
    // From window i on; `found` is of what is in common and of what follows. Returns that of what comes before. Where a window begins or
    // ends as its neighbour does, an element is taken twice: that changes nothing.
    template <int i, class Cell, class Read, class Join, class Put>
    POOLGRAD_INLINE Cell from(const Cell& found, const Read& read, const Join& join, const Put& put) const {
        if constexpr (i + 1 == kCount) {
            put(i, found);
            return found;
        } else {
            const Cell first = read(windows[i].first);
            const Cell others = from<i + 1>(join(found, read(windows[i + 1].last - 1)), read, join, put);
            const Cell before = i + 2 == kCount ? first : join(first, others);
            put(i, join(before, found));
            return before;
        }
    }
};

// What it finds in rows, to rows `pitch` apart: value(at, y), code(at, y) with a `step` for each y, and wins(x, best, its code, best's code)
// where a later x replaces best.
template <bool coded, class V, class C, class Value, class Code, class Wins>
POOLGRAD_INLINE void fold_shared(const Shared& shared, int64_t length, V* values, C* codes, int64_t pitch, C step, const Value& value,
                                 const Code& code, const Wins& wins) {
    constexpr int lanes = kLanes<V>;
    if constexpr (coded)
        shared.template fold<V>(
            length,
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA {
                return Coded<V, C>{value(at, y), code(at, y) + spread<C, lanes>(C(C(y) * step))};
            },
            [&](const Coded<V, C>& best, const Coded<V, C>& x) POOLGRAD_LAMBDA {
                const auto mask = wins(x.values, best.values, x.codes, best.codes);
                return Coded<V, C>{select<V, lanes>(mask, x.values, best.values), select<C, lanes>(mask, x.codes, best.codes)};
            },
            [&](int64_t at, int i, const Coded<V, C>& best) POOLGRAD_LAMBDA {
                store<V, lanes>(values + i * pitch + at, best.values);
                store<C, lanes>(codes + i * pitch + at, best.codes - spread<C, lanes>(C(C(shared.windows[i].first) * step)));
            });
    else
        shared.template fold<V>(
            length, value, [](Vector<V, lanes> best, Vector<V, lanes> x) POOLGRAD_LAMBDA { return larger<V, lanes>(x, best); },
            [&](int64_t at, int i, Vector<V, lanes> best) POOLGRAD_LAMBDA { store<V, lanes>(values + i * pitch + at, best); });
}

// The same of rows without NaN whose codes ascend: put(at, i, values, codes).
template <bool coded, class V, class C, class Value, class Code, class Put>
POOLGRAD_INLINE void fold_in_order(const Shared shared, int64_t length, C step, const Value& value, const Code& code, const Put& put) {
    constexpr int lanes = kLanes<V>;
    const auto base = [=](int64_t y) POOLGRAD_LAMBDA { return spread<C, lanes>(C(C(y) * step)); };
    if constexpr (coded) {
        struct Cell {
            Coded<V, C> found;
            Vector<C, lanes> base;
        };
        const auto one = spread<C, lanes>(step);
        const auto cell = [&](int64_t at, int64_t y, Vector<C, lanes> its_base) POOLGRAD_LAMBDA {
            return Cell{{value(at, y), code(at, y) + its_base}, its_base};
        };
        shared.template fold<V>(
            length, [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return cell(at, y, base(y)).found; },
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return cell(at, y, base(y)); },
            [&](int64_t at, int64_t y, const Cell& before) POOLGRAD_LAMBDA { return cell(at, y, before.base + one); },
            [](const Coded<V, C>& best, const Coded<V, C>& x) POOLGRAD_LAMBDA {
                return Coded<V, C>{larger<V, lanes>(x.values, best.values), select<C, lanes>(x.values > best.values, x.codes, best.codes)};
            },
            [&](int64_t at, int i, const Coded<V, C>& best) POOLGRAD_LAMBDA {
                put(at, i, best.values, best.codes - base(shared.windows[i].first));
            });
    } else {
        shared.template fold<V>(
            length, value, [](Vector<V, lanes> best, Vector<V, lanes> x) POOLGRAD_LAMBDA { return larger<V, lanes>(x, best); },
            [&](int64_t at, int i, Vector<V, lanes> best) POOLGRAD_LAMBDA { put(at, i, best, Vector<C, lanes>{}); });
    }
}

template <class S, class V, class C, bool coded>
class Lines {
  public:
    Lines(const MaxCall& call, const MaxSpace& space) : call_(call), space_(space), sign_(call, Type<S>()) {
        const Rule* rule = space.width.rule();
        const int64_t deep = space.depth.longest_window(), high = space.height.longest_window(), across = space.width.longest_window();
        slides_ = kSlides && rule && space.inner == 1 && 2 * rule->output_size >= kLanes<V> && is_small_window(rule->stride, rule->window) &&
                  deep * high <= kSlideRows;
        // Rows shorter than a register would be taken element by element.
        usable_ = slides_ || (!kPlain<S, V> && space.inner > 0 && space.width.input_size() * space.inner >= kLanes<V> && deep <= kRows && high <= kRows && across <= kRows &&
                  (rule ? space.inner < 16 && rule->stride <= 8 && rule->window <= kRows && rule->window <= rule->input_size : kWords<S, V> && space.inner == 1));
        if (!usable_) return;
        // Where windows of height may have something in common, some rows are made at once.
        const int64_t rows = rule && rule->window > rule->stride ? std::clamp<int64_t>(space.height.output_size(), 1, 8) : 1;
        const int64_t most = slides_ ? kRoom / rows : rule ? (kRoom / space.inner - rule->window) / rule->stride
                                  : std::min(kRoom, fitting_tile(Side{&space.width, false}, kRoom));
        tile_ = std::clamp<int64_t>(most, 1, std::max<int64_t>(1, space.width.output_size()));
        // Windows that overlap in height share what was found over depth.
        ring_rows_ = deep > 1 && !slides_ && (space.height.longest_cover() > 2 || deep * high > kRows) ? high : 0;
        // Codes are compared: they must not overflow where the last of such windows ends.
        const uint64_t most_codes = std::numeric_limits<C>::max() / 2, others = Shared::kCount - 1;
        shares_ = kShares && ring_rows_ && high + int64_t(others) <= kRows && space.step[0] <= most_codes / uint64_t(deep) &&
                  space.step[1] <= most_codes / others;
        if (shares_) ring_rows_ += int64_t(others);
        const int64_t columns = rule ? (tile_ - 1) * rule->stride + rule->window : kRoom;
        ring_pitch_ = (divide_up(std::min(columns, space.width.input_size()) * space.inner + kLanes<V>, kLine) | 1) * kLine;
        // Windows that overlap in depth share too, if there is room for all rows of some depths.
        constexpr int64_t bytes = int64_t(sizeof(V) + (coded ? sizeof(C) : 0)) * Shared::kCount;
        if (shares_ && space.depth.longest_cover() >= Shared::kCount && space.depth.output_size() >= Shared::kCount &&
            space.height.input_size() <= kRingBytes / (ring_pitch_ * bytes))
            ring_depths_ = Shared::kCount, ring_rows_ = space.height.input_size();
    }

    static constexpr int64_t kRoom = (16 << 10) / int64_t(sizeof(V));  // elements of a line
    static constexpr int64_t kBlock = coded ? kRoom / 4 : kRoom / 2;   // of short rows

    bool usable() const { return usable_; }
    bool slides() const { return slides_; }
    int64_t tile() const { return tile_; }  // the most outputs of a row
    bool keeps_rows() const { return usable_ && ring_rows_ > 0; }  // which boxes cut along height would make twice

    struct Both {
        V* values = nullptr;
        C* codes = nullptr;
        Both at(int64_t index) const { return {values + index, coded ? codes + index : nullptr}; }
    };
    struct Rooms {
        Rooms(const Lines& job, Arena& arena) {
            if (!job.usable_) return;
            if (job.slides_) {
                packed = {arena.take<V>(kRoom + kLanes<V>), arena.take<C>(coded ? kRoom + kLanes<V> : 0)};
                windows = arena.take<Range>(kSlideHeights);
                return;
            }
            const Rule* rule = job.space_.width.rule();
            size = kRoom + (rule ? (2 * rule->window + 4 * rule->stride) * job.space_.inner : Picks<V>::kSlack) + kLanes<V>;
            const auto take = [&](int64_t rows) { return Both{arena.take<V>(rows * size), arena.take<C>(coded ? rows * size : 0)}; };
            line = take(1), phases = take(rule && rule->stride > 1), found = take(1), packed = take(1);
            const int64_t rows = job.ring_depths_ * job.ring_rows_;
            ring = {arena.take<V>(rows * job.ring_pitch_), arena.take<C>(coded ? rows * job.ring_pitch_ : 0)};
            ring_holds = arena.take<int64_t>(rows);
            if (!rule) picks = Picks<V>(arena, job.tile_), code_picks = Picks<C>(arena, coded ? job.tile_ : 0);
        }
        Both line, phases, found, packed, ring;
        int64_t* ring_holds = nullptr;
        Picks<V> picks;  // of an irregular axis
        Picks<C> code_picks;
        int64_t size = 0;                             // of each of them
        Range outputs{0, 0}, columns{0, 0};           // of width
        int64_t lead = 0, groups = 0, pitch = 0;      // of a row in a line: what lies before the columns, its outputs, its elements
        int64_t block = 0;                            // rows that are made at once
        Range heights{0, 0}, *windows = nullptr;      // of small windows, those of height that were asked for last
        std::pair<int64_t, int64_t> ring_of{-1, -1};  // outer and first depth
    };

    // For these outputs of width.
    void prepare(Rooms& rooms, Range outputs) const {
        if (rooms.outputs == outputs) return;
        rooms.outputs = outputs;
        if (slides_) {  // what they read stays in the first cache
            const int64_t each = space_.input_at(1, 0, 0, 0) / std::max<int64_t>(1, space_.output_at(1, 0, 0, 0)) * outputs.size();
            const int64_t most = kRoom / outputs.size();
            rooms.block = std::clamp<int64_t>(kRoom / std::max<int64_t>(1, each), std::min<int64_t>(8, most), most);
            return;
        }
        rooms.columns = Side{&space_.width, false}.range(outputs);
        if (const Rule* rule = space_.width.rule()) {
            rooms.lead = rooms.columns.first - (outputs.first * rule->stride - rule->before);
            rooms.groups = outputs.size() + divide_up(std::max<int64_t>(0, rule->window - rule->stride), rule->stride);
            rooms.pitch = rooms.groups * rule->stride * space_.inner;
        } else {
            rooms.lead = 0, rooms.groups = outputs.size(), rooms.pitch = rooms.columns.size();
            const auto window = [&](int64_t i) { return space_.width.window(outputs.first + i).from(rooms.columns.first); };
            if constexpr (kWords<S, V>) rooms.picks.prepare(outputs.size(), 1, window);
            if constexpr (kWords<S, V> && coded) rooms.code_picks.prepare(outputs.size(), 1, window);
        }
        rooms.block = std::max<int64_t>(1, kBlock / std::max(rooms.pitch, rooms.groups * space_.inner));
        if (rooms.block > Shared::kCount) rooms.block = rooms.block / Shared::kCount * Shared::kCount;
        std::fill_n(rooms.line.values, rooms.size, lowest());
        if (coded) std::fill_n(rooms.line.codes, rooms.size, C(0));
        rooms.ring_of = {-1, -1};
    }

    // The maxima of some rows of outputs, at most rooms.block, one after the other in rooms.packed; false if they need the careful way.
    // Several depths, or planes, only of windows that slide.
    bool find(Rooms& rooms, Range outers, Range depths, Range heights, Range outputs) const {
        if constexpr (kSlides)
            if (slides_) return in_registers(rooms, outers, depths, heights, outputs);
        const int64_t outer = outers.first, d = depths.first;
        const int64_t inner = space_.inner, pitch = rooms.pitch;
        if (rooms.ring_of.first != outer || d < rooms.ring_of.second || d >= rooms.ring_of.second + ring_depths_) {
            std::fill_n(rooms.ring_holds, ring_depths_ * ring_rows_, -1);
            rooms.ring_of = {outer, std::min(d, space_.depth.output_size() - ring_depths_)};
        }
        const Both line = rooms.line.at(rooms.lead * inner);
        if (space_.depth.longest_window() == 1) {
            if (!down_flat(rooms, outer, d, heights, line)) return false;
        } else {
            for (int64_t h = heights.first, made = 0; h < heights.last; h += made) {
                made = down(rooms, outer, d, {h, heights.last}, line.at((h - heights.first) * pitch));
                if (!made) return false;
            }
        }
        if constexpr (kWords<S, V>)
            if (!space_.width.rule()) return pick(rooms, heights.size(), outputs.size()), true;
        const int64_t count = heights.size() * rooms.groups, row = outputs.size() * inner;
        const bool apart = rooms.groups != outputs.size();
        across(rooms, count, apart ? rooms.found : rooms.packed);
        for (int64_t i = 0; apart && i < heights.size(); ++i) {
            const auto from = rooms.found.at(i * rooms.groups * inner), to = rooms.packed.at(i * row);
            // The last register may go beyond the row: what follows is written later.
            for (int64_t at = 0; at < row; at += kLanes<V>) {
                store<V, kLanes<V>>(to.values + at, load<V, kLanes<V>>(from.values + at));
                if constexpr (coded) store<C, kLanes<C>>(to.codes + at, load<C, kLanes<C>>(from.codes + at));
            }
        }
        mend_codes(rooms, heights.size(), outputs);
        return true;
    }

  private:
    static constexpr bool kSlides = is_float<S> ? !kPlain<S, V> : std::is_same_v<S, V>;
    static constexpr bool kShares = is_float<S> && !kPlain<S, V>;        // integers are not worth the code
    static constexpr int64_t kRows = 64;                                 // that are folded at once
    static constexpr int64_t kLine = 64 / int64_t(sizeof(V));            // of the cache
    static constexpr int64_t kRingBytes = 512 << 10;                     // of rows of several depths

    static V lowest() {
        if constexpr (std::is_floating_point_v<V>)
            return -std::numeric_limits<V>::infinity();
        else
            return std::numeric_limits<V>::lowest();
    }

    // Codes count from the clipped start. What is around the row wins only over equals: then the first true element does.
    void mend_codes(const Rooms& rooms, int64_t rows, Range outputs) const {
        if constexpr (coded) {
            const Rule& rule = *space_.width.rule();
            const int64_t inner = space_.inner, row = outputs.size() * inner;
            for (int64_t w = outputs.first; w < outputs.last && w * rule.stride < rule.before; ++w) {
                const C clipped = C(uint64_t(rule.before - w * rule.stride) * space_.step[2]);
                for (int64_t i = 0; i < rows; ++i)
                    for (C* code = rooms.packed.codes + i * row + (w - outputs.first) * inner, *end = code + inner; code < end; ++code)
                        *code = *code > clipped ? C(*code - clipped) : C(0);
            }
        }
    }

    // Small windows: the rows of these outputs, planes one after the other.
    bool in_registers(Rooms& rooms, Range outers, Range depths, Range heights, Range outputs) const {
        const Rule& rule = *space_.width.rule();
        bool whole = false;
        if (!(rooms.heights == heights))
            for (int64_t h = heights.first; h < heights.last; ++h) rooms.windows[h - heights.first] = space_.height.window(h);
        rooms.heights = heights;
        with_small_window(rule.stride, rule.window, [&](auto stride, auto window) {
            whole = slide_rows<decltype(stride)::value, decltype(window)::value>(rooms, outers, depths, heights, outputs);
        });
        mend_codes(rooms, outers.size() * depths.size() * heights.size(), outputs);
        return whole;
    }
    // How rows are read: some of their lanes may lie beside the row, or even outside the array.
    using Whole = Constant<0>;
    using Clipped = Constant<1>;
    using Outside = Constant<2>;
    // Small windows in registers: first along width, then along height and depth, as the row-major order is.
    template <int stride, int window>
    struct Slide {
        static constexpr int lanes = kLanes<V>, overlap = std::max(0, window - stride), reach = stride * lanes + overlap;
        static constexpr int loads = stride == 1 ? window : overlap ? 2 * stride : stride;
        using Cell = std::conditional_t<coded, Coded<V, C>, Vector<V, lanes>>;
        using There = Mask<V, lanes>;

        Slide(const Lines& job, const Rooms& rooms)
            : array(static_cast<const S*>(job.call_.source)), elements(job.space_.inputs()), wide(job.space_.width.input_size()),
              plane(job.space_.height.input_size() * wide), sign(job.sign_), step_depth(C(job.space_.step[0])), step_height(C(job.space_.step[1])),
              step_width(C(job.space_.step[2])), packed(rooms.packed) {}

        // The maxima of a register of windows in the row from this index on; there[i] tells which lanes of the i-th load belong to it.
        template <class How>
        POOLGRAD_INLINE Cell row(Odd<V>& noted, How how, int64_t index, const There* there = nullptr) const {
            const auto read = [&](int which, int at) POOLGRAD_LAMBDA {
                Vector<V, lanes> x;
                if constexpr (how() == Outside())
                    x = load_clipped<V>(array, elements, index + at);
                else
                    x = load<V, lanes>(array + index + at);
                x = sign.template turn<lanes>(x);
                return how() == Whole() ? x : select<V, lanes>(there[which], x, spread<V, lanes>(lowest()));
            };
            const auto note = [&](auto x, auto y) POOLGRAD_LAMBDA {
                if constexpr (std::is_floating_point_v<V>) noted.template note<lanes>(unordered<V, lanes>(x, y));
            };
            const auto join = [&](Cell& best, Vector<V, lanes> x, int t) POOLGRAD_LAMBDA {
                if constexpr (coded) best.codes = select<C, lanes>(x > best.values, spread<C, lanes>(C(C(t) * step_width)), best.codes);
                values_of(best) = larger<V, lanes>(x, values_of(best));
            };
            Cell best{};
            with_terms<stride, window, lanes>(read, note, [&](auto first, auto... others) POOLGRAD_LAMBDA {
                values_of(best) = first;
                int t = 0;
                (join(best, others, ++t), ...);
            });
            return best;
        }
        POOLGRAD_INLINE Cell down(const Cell& best, const Cell& x, C add) const {
            if constexpr (coded)
                return Cell{larger<V, lanes>(x.values, best.values),
                            select<C, lanes>(x.values > best.values, x.codes + spread<C, lanes>(add), best.codes)};
            else
                return larger<V, lanes>(x, best);
        }
        // Of some rows and planes, as many as the compiler knows or not.
        template <class How, class Rows, class Planes>
        POOLGRAD_INLINE Cell window_of(Odd<V>& noted, How how, int64_t first, Rows rows, Planes planes, const There* there = nullptr) const {
            Cell best = row(noted, how, first, there);
            for (int64_t y = 1; y < rows; ++y) best = down(best, row(noted, how, first + y * wide, there), C(C(y) * step_height));
            for (int64_t z = 1; z < planes; ++z)
                for (int64_t y = 0; y < rows; ++y)
                    best = down(best, row(noted, how, first + z * plane + y * wide, there), C(C(z) * step_depth + C(y) * step_height));
            return best;
        }
        POOLGRAD_INLINE void put(int64_t at, const Cell& best) const {  // what goes beyond the row is written later
            store<V, lanes>(packed.values + at, in_order<stride>(values_of(best)));
            if constexpr (coded) store<C, lanes>(packed.codes + at, in_order<stride>(best.codes));
        }

        const S* array;
        int64_t elements, wide, plane;
        Turn<V> sign;
        C step_depth, step_height, step_width;
        Both packed;
    };

    // One row of windows in the order of memory: registers of them that all lie in the row, from the window starts.first on, the last one at
    // starts.last. Window 0 begins at the index `first`, and its maximum goes to `to`.
    template <int stride, int window, class Rows, class Planes>
    POOLGRAD_INLINE static void slide_along(const Slide<stride, window>& slide, Odd<V>& odd, int64_t first, Range starts, int64_t to, Rows rows,
                                            Planes planes) {
        Odd<V> noted;
        for (int64_t at = starts.first; at < starts.last; at += kLanes<V>)
            slide.put(to + at, slide.window_of(noted, Whole(), first + at * stride, rows, planes));
        const int64_t at = starts.last;
        slide.put(to + at, slide.window_of(noted, Whole(), first + at * stride, rows, planes));
        odd.join(noted);
    }
    template <int stride, int window>
    POOLGRAD_NOINLINE void slide_all_along(const Rooms& rooms, Odd<V>& all, Range outers, Range depths, Range heights, int64_t start, Range starts,
                                           int64_t count, int64_t ahead) const {
        const Slide<stride, window> slide(*this, rooms);
        Odd<V> odd;
        int64_t to = 0;
        const int64_t wide = slide.wide, plane = slide.plane, reads = (count - 1) * stride + window;
        for (int64_t outer = outers.first; outer < outers.last; ++outer)
            for (int64_t d = depths.first; d < depths.last; ++d) {
                const Range depth = space_.depth.window(d);
                const int64_t origin = space_.input_at(outer, depth.first, 0, start), planes = depth.size();
                for (int64_t h = 0; h < heights.size(); ++h, to += count) {
                    const Range height = rooms.windows[h];
                    const int64_t first = origin + height.first * wide, rows = height.size();
                    for (int64_t z = 0; ahead && z < planes; ++z)
                        for (int64_t y = rows; y < rows + ahead; ++y) fetch(slide.array + first + z * plane + y * wide, reads);
                    if (rows == window && planes == 1)
                        slide_along(slide, odd, first, starts, to, Constant<window>(), Constant<1>());
                    else if (window == 2 && rows == 2 && planes == 2)
                        slide_along(slide, odd, first, starts, to, Constant<window>(), Constant<window>());
                    else
                        slide_along(slide, odd, first, starts, to, rows, planes);
                }
            }
        all.join(odd);
    }
    // What windows along height have in common stays in registers where these are taken down all rows.
    template <int stride, int window>
    POOLGRAD_NOINLINE bool slide_rows(Rooms& rooms, Range outers, Range depths, Range heights, Range outputs) const {
        using Sliding = Slide<stride, window>;
        using Cell = typename Sliding::Cell;
        constexpr int lanes = kLanes<V>, overlap = Sliding::overlap, reach = Sliding::reach, loads = Sliding::loads;
        const Sliding slide(*this, rooms);
        const int64_t wide = slide.wide, plane = slide.plane, last = slide.elements - reach;
        const int64_t rows = outers.size() * depths.size() * heights.size(), count = outputs.size();
        // Registers of few rows, and of rows of some registers that have little in common, are taken in the order of memory, others down all
        // rows. Then about as much as the rows have is read until the next ones are.
        const bool along = count > lanes && (heights.size() < 4 || (stride > 1 && count >= 3 * lanes));
        const int64_t all_rows = space_.depth.output_size() * space_.height.output_size();
        // With codes, comparisons keep the CPU from reading on by itself.
        const int64_t row_bytes = wide * int64_t(sizeof(S));
        const bool fetches = along && plane > wide && (fetches_rows(row_bytes, stride) || (coded && overlap && row_bytes >= 384));
        const int64_t next = along ? 1024 / int64_t(sizeof(S)) : rows * space_.input_at(1, 0, 0, 0) / all_rows;
        Odd<V> odd;  // of all; what is noted in a loop stays in a register there
        typename Sliding::There there[loads]{};  // which lanes of what is loaded belong to the row
        const auto row = [&](Odd<V>& noted, auto how, int64_t index) POOLGRAD_LAMBDA {
            __builtin_prefetch(slide.array + index + next);
            return slide.row(noted, how, index, there);
        };
        const auto strip = [&](auto how, auto flat, int64_t at, int64_t column) POOLGRAD_LAMBDA {
            int64_t to = at;
            Odd<V> noted;
            for (int64_t outer = outers.first; outer < outers.last; ++outer)
                for (int64_t d = depths.first; d < depths.last; ++d) {
                    const Range depth = space_.depth.window(d);
                    const int64_t origin = space_.input_at(outer, depth.first, 0, 0) + column, deep = flat() ? 1 : depth.size();
                    Cell kept[std::max(1, flat() ? overlap : overlap * int(kSlideRows / window))]{};
                    int64_t kept_from = -1;  // the first row that is kept
                    for (int64_t h = 0; h < heights.size(); ++h, to += count) {
                        const Range height = rooms.windows[h];
                        const int64_t first = origin + height.first * wide;
                        if (height.size() != window) {
                            slide.put(to, slide.window_of(noted, how, first, height.size(), depth.size(), there));
                            continue;
                        }
                        if (overlap && kept_from != height.first)
                            for (int64_t z = 0; z < deep; ++z)
                                for (int y = 0; y < overlap; ++y) kept[z * overlap + y] = row(noted, how, first + z * plane + y * wide);
                        kept_from = height.first + stride;
                        Cell best{};
                        for (int64_t z = 0; z < deep; ++z) {
                            Cell* const common = kept + z * overlap;
                            const auto cell = [&](auto y) POOLGRAD_LAMBDA {
                                if constexpr (y() < overlap)
                                    return common[y()];
                                else
                                    return row(noted, how, first + z * plane + y() * wide);
                            };
                            with_constants<window>([&](auto... y) POOLGRAD_LAMBDA {
                                const Cell cells[window] = {cell(y)...};
                                for (int i = 0; i < overlap; ++i) common[i] = cells[stride + i];
                                ((best = y() || z ? slide.down(best, cells[y()], C(C(z) * slide.step_depth + C(y()) * slide.step_height)) : cells[0]), ...);
                            });
                        }
                        slide.put(to, best);
                    }
                }
            odd.join(noted);
        };
        // The last register overlaps the one before.
        const int64_t start = outputs.first * stride - space_.width.rule()->before;
        const int64_t top = space_.input_at(outers.first, space_.depth.window(depths.first).first, rooms.windows[0].first, start);
        const int64_t bottom = space_.input_at(outers.last - 1, space_.depth.window(depths.last - 1).last - 1,
                                               rooms.windows[heights.size() - 1].last - 1, start);
        const auto way = [&](int64_t at) {
            const int64_t column = start + at * stride;
            if (top + at * stride < 0 || bottom + at * stride > last) return 2;
            return column < 0 || column + (std::min<int64_t>(lanes, count) - 1) * stride + window > wide ? 1 : 0;
        };
        const bool flat = space_.depth.longest_window() == 1;
        int64_t whole_first = 0, whole_last = along ? count - lanes + 1 : 0;  // of where such registers begin
        while (whole_first < whole_last && way(whole_first) != Whole()) ++whole_first;
        while (whole_first < whole_last && way(whole_last - 1) != Whole()) --whole_last;
        if (whole_first < whole_last)
            slide_all_along<stride, window>(rooms, odd, outers, depths, heights, start, {whole_first, whole_last - 1}, count,
                                            fetches ? std::max(4, 2 * stride) : 0);
        for (int64_t done = 0; done < count; done += lanes) {
            const int64_t at = std::max<int64_t>(0, std::min(done, count - lanes)), column = start + at * stride;
            const int how = way(at);
            if (how == Whole()) {
                if (!along) flat ? strip(Whole(), std::true_type(), at, column) : strip(Whole(), std::false_type(), at, column);
                continue;
            }
            for (int i = 0; i < loads; ++i)
                for (int64_t lane = 0; lane < lanes; ++lane) {
                    const int64_t x = column + lane + (i < stride ? i * lanes : stride == 1 ? i : (i - stride) * lanes + 1);
                    there[i][lane] = x >= 0 && x < wide ? -1 : 0;
                }
            if (how == Outside())
                strip(Outside(), std::false_type(), at, column);
            else
                flat ? strip(Clipped(), std::true_type(), at, column) : strip(Clipped(), std::false_type(), at, column);
        }
        return !odd.seen();
    }
    template <class Cell>
    POOLGRAD_INLINE static auto& values_of(Cell& cell) {
        if constexpr (coded)
            return cell.values;
        else
            return cell;
    }

    // Over depth and height: the first row, or those that share. Returns how many, 0 if they need the careful way.
    int64_t down(Rooms& rooms, int64_t outer, int64_t d, Range heights, Both to) const {
        const Range depth = space_.depth.window(d), height = space_.height.window(heights.first);
        if (!ring_rows_) return sources(rooms, outer, depth, height, to);
        Shared shared;
        const int64_t length = rooms.columns.size() * space_.inner;
        const bool shares = shares_ && length >= kLanes<V> && shared.find(space_.height, heights);
        BestRow<V, C> rows[kRows];
        for (int64_t y = height.first; y < (shares ? shared.all().last : height.last); ++y) {
            const int64_t place = (d - rooms.ring_of.second) * ring_rows_ + y % ring_rows_;
            const Both row = rooms.ring.at(place * ring_pitch_);
            if (rooms.ring_holds[place] != y && !make_row(rooms, outer, d, y, length, row)) return 0;
            rooms.ring_holds[place] = y;
            rows[y - height.first] = {row.values, row.codes, C(uint64_t(y - height.first) * space_.step[1])};
        }
        if constexpr (kShares)
            if (shares) return first_of_shared(shared, rows, length, to, rooms.pitch), Shared::kCount;
        first_of_best<coded>(rows, height.size(), length, to.values, to.codes);
        return 1;
    }
    // Over depth: the row of the ring, or that of all its depths if they share.
    bool make_row(Rooms& rooms, int64_t outer, int64_t d, int64_t y, int64_t length, Both to) const {
        Shared shared;
        const int64_t first = rooms.ring_of.second, place = y % ring_rows_;
        if constexpr (kShares)
            if (ring_depths_ > 1 && length >= kLanes<V> && shared.find(space_.depth, {first, first + ring_depths_})) {
                const S* from = static_cast<const S*>(call_.source) + space_.input_at(outer, 0, y, rooms.columns.first);
                const bool good = fold_sources(shared, from, space_.input_at(0, 1, 0, 0), length, C(space_.step[0]),
                                               rooms.ring.at(place * ring_pitch_), ring_rows_ * ring_pitch_);
                for (int64_t i = 0; i < ring_depths_; ++i) rooms.ring_holds[i * ring_rows_ + place] = good ? y : -1;
                return good;
            }
        return sources(rooms, outer, space_.depth.window(d), {y, y + 1}, to);
    }
    // Windows that share, of source rows `row` apart, to rows `pitch` apart; false if they need the careful way.
    POOLGRAD_NOINLINE bool fold_sources(const Shared shared, const S* from, int64_t row, int64_t length, C step, Both to, int64_t pitch) const {
        constexpr int lanes = kLanes<V>;
        using Bits = typename Turn<V>::Bits;
        const Turn<V> sign = sign_;
        Odd<V> odd;
        fold_shared<coded>(
            shared, length, to.values, to.codes, pitch, step,
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA {
                const Vector<V, lanes> raw = load<V, lanes>(from + y * row + at);
                if constexpr (std::is_floating_point_v<V>) odd.template note<lanes>(unordered<V, lanes>(raw, raw));
                if constexpr (std::is_floating_point_v<V> && !coded)
                    odd.template note<lanes>(bit_copy<Vector<Bits, lanes>>(raw) == spread<Bits, lanes>(std::numeric_limits<Bits>::min()));
                return sign.template turn<lanes>(raw);
            },
            [](int64_t, int64_t) POOLGRAD_LAMBDA { return Vector<C, lanes>{}; },
            [](auto x, auto best, auto, auto) POOLGRAD_LAMBDA { return x > best; });
        return !odd.seen();
    }
    POOLGRAD_NOINLINE void first_of_shared(Shared shared, const BestRow<V, C>* rows, int64_t length, Both to, int64_t pitch) const {
        constexpr int lanes = kLanes<V>;
        const int64_t first = shared.all().first;
        for (Range& window : shared.windows) window = {window.first - first, window.last - first};
        fold_shared<coded>(
            shared, length, to.values, to.codes, pitch, C(space_.step[1]),
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return load<V, lanes>(rows[y].values + at); },
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return load<C, lanes>(rows[y].codes + at); },
            [](auto x, auto best, auto other, auto code) POOLGRAD_LAMBDA { return (x > best) | ((x == best) & (other < code)); });
    }
    POOLGRAD_NOINLINE bool sources(const Rooms& rooms, int64_t outer, Range depth, Range height, Both to) const {
        Candidate<S, C> candidates[kRows];
        int count = 0;
        const int64_t row = space_.width.input_size() * space_.inner;
        for (int64_t z = depth.first; z < depth.last; ++z) {
            const S* from = static_cast<const S*>(call_.source) + space_.input_at(outer, z, height.first, rooms.columns.first);
            C code = C(uint64_t(z - depth.first) * space_.step[0]);
            for (int64_t y = height.first; y < height.last; ++y, from += row, code = C(code + space_.step[1])) candidates[count++] = {from, code};
        }
        Odd<V> odd;
        first_of_sources<coded>([&](int64_t t) POOLGRAD_LAMBDA { return candidates[t].row; }, [&](int64_t t) POOLGRAD_LAMBDA { return candidates[t].code; },
                                count, sign_, rooms.columns.size() * space_.inner, to.values, to.codes, odd);
        return !odd.seen();
    }
    // Windows of one depth: all rows of a block in one go.
    POOLGRAD_NOINLINE bool down_flat(const Rooms& rooms, int64_t outer, int64_t d, Range heights, Both to) const {
        const int64_t row = space_.width.input_size() * space_.inner, length = rooms.columns.size() * space_.inner;
        const S* plane = static_cast<const S*>(call_.source) + space_.input_at(outer, space_.depth.window(d).first, 0, rooms.columns.first);
        const Turn<V> sign = sign_;
        const C step = C(space_.step[1]);
        Odd<V> odd;
        Shared shared;
        for (int64_t h = heights.first; h < heights.last; ++h, to = to.at(rooms.pitch)) {
            if constexpr (kShares)
                if (length >= kLanes<V> && shared.find(space_.height, {h, heights.last})) {
                    if (!fold_sources(shared, plane, row, length, step, to, rooms.pitch)) return false;
                    h += Shared::kCount - 1, to = to.at((Shared::kCount - 1) * rooms.pitch);
                    continue;
                }
            const Range window = space_.height.window(h);
            const PitchRows<S> rows{plane + window.first * row, row};
            const auto fold = [&](auto count) POOLGRAD_LAMBDA {
                first_of_sources<coded>(rows, [=](int64_t t) POOLGRAD_LAMBDA { return C(C(t) * step); }, count, sign, length, to.values, to.codes, odd);
            };
            if (window.size() == 3)
                fold(Constant<3>());
            else if (window.size() == 2)
                fold(Constant<2>());
            else
                fold(int(window.size()));
        }
        return !odd.seen();
    }

    // Along width, `count` outputs of the line.
    void across(const Rooms& rooms, int64_t count, Both to) const {
        const Rule& rule = *space_.width.rule();
        const int64_t inner = space_.inner;
        if (rule.stride == 1 && rule.window >= 5) return by_tripling(rooms, count * inner, to);
        Both starts[8] = {rooms.line};
        Both phase = rooms.phases;
        for (int64_t r = 0; rule.stride > 1 && r < std::min(rule.stride, rule.window); ++r) {
            const int64_t length = count + (rule.window - 1 - r) / rule.stride;
            take_strided(phase.values, rooms.line.values + r * inner, length, rule.stride, inner);
            if constexpr (coded) take_strided(phase.codes, rooms.line.codes + r * inner, length, rule.stride, inner);
            starts[r] = phase;
            phase = phase.at(length * inner);
        }
        BestRow<V, C> rows[kRows];
        for (int64_t t = 0; t < rule.window; ++t) {
            const Both from = starts[t % rule.stride].at(t / rule.stride * inner);
            rows[t] = {from.values, from.codes, C(uint64_t(t) * space_.step[2])};
        }
        first_of_best<coded>(rows, rule.window, count * inner, to.values, to.codes);
    }

    // The same for stride 1: windows of 3, 9, 27, ... elements from three of the size before, which overlap in the last. `to` is not
    // rooms.packed, where the windows are kept.
    void by_tripling(const Rooms& rooms, int64_t length, Both to) const {
        const int64_t inner = space_.inner, window = space_.width.rule()->window;
        // In place only whole registers: none is made twice. Each pass leaves off what it could not read whole.
        const auto whole = [](int64_t count) { return divide_up(count, kLanes<V>) * kLanes<V>; };
        Both from = rooms.line;
        for (int64_t size = 1, next; size < window; size = next, from = rooms.packed) {
            next = std::min(3 * size, window);
            const int64_t shifts[3] = {0, next > 2 * size ? size : next - size, next - size};
            BestRow<V, C> rows[3];
            for (int i = 0; i < 3; ++i) {
                const Both other = from.at(shifts[i] * inner);
                rows[i] = {other.values, other.codes, C(uint64_t(shifts[i]) * space_.step[2])};
            }
            const bool last = next == window;
            const Both into = last ? to : rooms.packed;
            first_of_best<coded>(rows, next > 2 * size ? 3 : 2, last ? length : whole(length + (window - next) * inner), into.values, into.codes);
        }
    }

    // The same of an irregular axis, row by row.
    POOLGRAD_NOINLINE void pick(const Rooms& rooms, int64_t rows, int64_t outputs) const {
        constexpr int lanes = kLanes<V>;
        rooms.picks.visit([&](auto how) POOLGRAD_LAMBDA {
            for (int64_t row = 0; row < rows; ++row) {
                const Both from = rooms.line.at(row * rooms.pitch), to = rooms.packed.at(row * outputs);
                // The last register may go beyond the row: what follows is written later.
                for (int64_t at = 0; at < outputs; at += lanes) {
                    const typename Picks<V>::template Terms<decltype(how)::value> terms(rooms.picks, from.values, at);
                    auto best = terms.term(0);
                    if constexpr (coded) {
                        const typename Picks<C>::template Terms<decltype(how)::value> codes(rooms.code_picks, from.codes, at);
                        auto code = codes.term(0);
                        for (int32_t t = 1; t < rooms.picks.longest(); ++t) {
                            const auto x = terms.term(t);
                            const Vector<C, lanes> other = codes.term(t) + spread<C, lanes>(C(uint64_t(t) * space_.step[2]));
                            const Mask<V, lanes> mask = ((x > best) | ((x == best) & (other < code))) & terms.has(t);
                            code = select<C, lanes>(mask, other, code), best = select<V, lanes>(mask, x, best);
                        }
                        store<C, lanes>(to.codes + at, code);
                    } else {
                        for (int32_t t = 1; t < rooms.picks.longest(); ++t)
                            best = larger<V, lanes>(select<V, lanes>(terms.has(t), terms.term(t), best), best);
                    }
                    store<V, lanes>(to.values + at, best);
                }
            }
        });
    }

    const MaxCall& call_;
    const MaxSpace& space_;
    const Turn<V> sign_;
    bool slides_, usable_, shares_ = false;
    int64_t tile_ = 1, ring_rows_ = 0, ring_depths_ = 1, ring_pitch_ = 0;
};

}  // namespace poolgrad::POOLGRAD_ISA
