// Maxima along width, one row of the source at a time: of runs of inner, of a whole row at once where these are short, or of planes that are
// laid side by side.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class V, class C, bool coded>
class AlongWidth {
  public:
    AlongWidth(const MaxCall& call, const MaxSpace& space, const Way<S, V>& way)
        : source_(static_cast<const S*>(call.source)), space_(space), sign_(call, Type<S>()), way_(way) {}

    struct Rooms {
        Rooms(const AlongWidth& job, Arena& arena) {
            const Way<S, V>& way = job.way_;
            const int64_t stride = way.line ? job.space_.width.rule()->stride : 1;
            const int64_t line = way.line ? ((way.tile + 1) * stride + job.space_.width.rule()->window) * way.run : 0;
            padded = arena.take<S>(line), phases = arena.take<S>(stride > 1 ? 2 * line : 0);
            joined = arena.take<V>(way.side_by_side && !way.bundled ? Way<S, V>::kColumns * kPlanes<V> : 0);
        }
        S *padded, *phases;
        V* joined;
        Range outputs{0, 0}, inner{0, 0};                  // of the box
        bool nan = false;                                  // one may have been met in the box
        std::pair<int64_t, int64_t> joined_plane{-1, -1};  // (outer, depth) and heights that lie side by side in `joined`
        Range joined_rows{0, 0};
    };

    void begin(Rooms& rooms, const Box& box) const {
        rooms.outputs = box.width;
        rooms.joined_plane = {-1, -1};
        rooms.nan = coded && std::is_floating_point_v<V> && (way_.line || !kShares<S, V>);  // these are not looked at
        rooms.inner = way_.side_by_side ? Range{0, kPlanes<V>} : box.inner;
        if (way_.line) std::fill_n(rooms.padded, line_length(box.width) * space_.inner, lowest());
    }

    // values, codes <- of one source row.
    void find(Rooms& rooms, int64_t outer, int64_t d, int64_t h, V* values, C* codes) const {
        const S* row = source_ + space_.input_at(outer, d, h, 0) + rooms.inner.first;
        if constexpr (kWords<S, V>)
            if (way_.side_by_side) return planes_along_width(rooms, outer, d, h, values, codes);
        const int64_t run = rooms.inner.size();
        const Range outputs = rooms.outputs, columns = Side{&space_.width, false}.range(outputs);
        if constexpr (!kPlain<S, V>)
            if (way_.line) return line_along_width(rooms, row, values, codes);
        const bool shares = kShares<S, V> && run >= kLanes<V> && space_.width.longest_cover() >= Shared::kCount;
        // Looked for once, and in the order of memory: after that the row is in the cache.
        if constexpr (kShares<S, V>)
            for (int64_t x = columns.first; x < columns.last && shares && !rooms.nan; x += run == space_.inner ? columns.size() : 1)
                rooms.nan = has_nan(row + x * space_.inner, run == space_.inner ? columns.size() * run : run);
        for (int64_t w = outputs.first, count; w < outputs.last; w += count) {
            const auto to = [&](int64_t output) { return (output - outputs.first) * run; };
            if constexpr (kShares<S, V>) {
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

  private:
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
        constexpr bool few = std::is_same_v<Rows, PitchRows<S>> && (!coded || kShares<S, V>);
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
                            [&](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA {
                                return sign.template turn<lanes()>(load<V, lanes()>(rows(t) + at));
                            },
                            odd);
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
            const bool follow = columns.size() == space_.width.input_size();
            const int64_t rows = follow ? std::clamp<int64_t>(Way<S, V>::kColumns / columns.size(), 1, space_.height.input_size() - h) : 1;
            const int64_t pitch = space_.input_at(1, 0, 0, 0), last = std::min<int64_t>(kPlanes<V>, space_.outer - outer * kPlanes<V>) - 1;
            const S* first = source_ + space_.input_at(outer * kPlanes<V>, d, h, columns.first);
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
        std::memcpy(rooms.padded + (columns.first - start) * inner, row + columns.first * inner, std::size_t(columns.size() * inner) * sizeof(S));
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

    // Below everything, so that it never beats a value; where it equals one, the codes are mended (line_along_width).
    S lowest() const {
        S result;
        if constexpr (is_float<S>)
            store<V, 1>(&result, sign_.template turn<1>(-std::numeric_limits<V>::infinity()));
        else
            store<V, 1>(&result, sign_.template turn<1>(std::numeric_limits<S>::lowest()));
        return result;
    }

    const S* const source_;
    const MaxSpace& space_;
    const Turn<V> sign_;
    const Way<S, V> way_;
};

}  // namespace poolgrad::POOLGRAD_ISA
