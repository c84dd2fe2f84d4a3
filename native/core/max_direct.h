// Maxima of windows of few elements, searched in one pass: straight from the source, or of small planes laid side by side.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class V, class C, bool coded>
class Direct {
  public:
    Direct(const MaxCall& call, const MaxSpace& space, const Way<S, V>& way)
        : source_(static_cast<const S*>(call.source)), space_(space), sign_(call, Type<S>()), way_(way),
          by_runs_(way.apart && sign_.mask == 0 && way.run * int64_t(sizeof(S)) >= 1024) {
        if (const Rule* rule = space.width.rule()) whole_last_ = (rule->input_size + rule->before - rule->window) / rule->stride + 1;
    }

    // Where the elements of a window of these sizes lie, from its first one on, and their codes.
    struct Terms {
        Offset sizes{0, 0, 0};
        int count = 0;
        int64_t at[Way<S, V>::kDirect];
        C codes[Way<S, V>::kDirect];
    };
    struct Rooms {
        Rooms(const Direct& job, Arena& arena) {
            const Way<S, V>& way = job.way_;
            const int64_t row = way.direct ? way.run * way.tile : 0;
            const int64_t results = way.bundled ? job.space_.output_at(1, 0, 0, 0) * kPlanes<V> : row;
            values = arena.take<V>(results), codes = arena.take<C>(results), stored = arena.take<S>(row);
            joined = arena.take<V>(way.bundled ? Way<S, V>::kBundle * kPlanes<V> : 0);
        }
        V *values, *joined;  // joined: planes side by side
        C* codes;
        S* stored;           // a row of results as they are stored, where no other place is given
        Range inner{0, 0};   // of the box
        bool nan = false;    // one may have been met in the box
        Terms terms[4];
    };

    // Outputs of a row in a box: rows that are read again stay in the second cache.
    int64_t strip() const {
        const int64_t rows = space_.height.longest_cover() > 1 ? space_.depth.longest_window() * space_.height.longest_window() : 0;
        return rows ? std::max(way_.tile, fitting_tile(Side{&space_.width, false}, (256 << 10) / (rows * way_.run * int64_t(sizeof(S)))))
                    : space_.width.output_size();
    }

    // sink(d, h, outputs, search) for every row of the box, or a part of it, which calls search(S* results); their codes are in rooms.codes.
    template <class Sink>
    void straight(Rooms& rooms, int64_t outer, const Box& box, const Sink& sink) const {
        const S* source = source_ + space_.input_at(outer, 0, 0, 0);
        rooms.nan = false;
        rooms.inner = box.inner;
        for (int64_t d = box.depth.first; d < box.depth.last; ++d)
            for (int64_t h = box.height.first; h < box.height.last; ++h)
                for (Range part{box.width.first, 0}; part.first < box.width.last; part.first = part.last) {
                    part.last = std::min(part.first + way_.tile, box.width.last);
                    sink(d, h, part, [&](S* results) { at_once(rooms, source, 1, d, h, part, results, rooms.codes); });
                }
    }

    // Small planes whole and side by side: sink(index of the first result in its plane, columns, values, codes), values as they are stored.
    template <class Sink>
    void bundle(Rooms& rooms, int64_t group, const Box& box, const Sink& sink) const {
        const S* from[kPlanes<V>];
        for (int p = 0; p < kPlanes<V>; ++p) from[p] = source_ + space_.input_at(std::min(group * kPlanes<V> + p, space_.outer - 1), 0, 0, 0);
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
    // The maxima so far of `many` neighbouring registers. (Arrays of them would be kept in memory.)
    template <bool careful, int lanes, int many>
    struct Running {
        Vector<V, lanes> best;
        Vector<C, lanes> code{};
        Running<careful, lanes, many - 1> others;

        POOLGRAD_INLINE Running(const S* from, Turn<V> sign) : best(sign.template turn<lanes>(load<V, lanes>(from))), others(from + lanes, sign) {}
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

    // The maxima of one window.
    template <bool careful>
    POOLGRAD_INLINE void fold_window(const S* from, const Terms& terms, int64_t run, S* values, C* codes, Odd<V>& odd) const {
        constexpr int lanes = kLanes<V>;
        const Turn<V> sign = sign_;
        const int count = terms.count;
        if constexpr (!coded && !careful)
            if (by_runs_ && count > kByTurns) return fold_runs(from, terms, run, values, odd);
        const auto fold = [&](auto size, auto registers, int64_t at) POOLGRAD_LAMBDA {
            const auto term = [&](int t) POOLGRAD_LAMBDA {
                const S* place = from + terms.at[t] + at;
                fetch_next_page(place, registers() * size());
                return place;
            };
            Running<careful, size(), registers()> best(term(0), sign);
            if (!careful && count == 1) best.take(from + at, C(0), sign, odd);
            for (int t = 1; t < count; ++t) best.take(term(t), coded ? terms.codes[t] : C(0), sign, odd);
            best.put(values + at, codes + at, sign);
        };
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
    // Those of a row, or a part of it, whose windows have so many planes and rows, and of which column 0 lies at `row`.
    template <bool careful>
    POOLGRAD_NOINLINE bool fold_row(Rooms& rooms, const S* row, int64_t pitch, int64_t deep, int64_t high, Range outputs, S* values,
                                    C* codes) const {
        const int64_t run = rooms.inner.size(), column = space_.inner * pitch;
        const Rule* rule = space_.width.rule();
        Odd<V> odd;
        for (int64_t w = outputs.first, windows = 1; w < outputs.last; w += windows) {
            const Range width = space_.width.window(w);
            const Terms& terms = listed(rooms, deep, high, width.size(), pitch);
            // Whole windows follow each other at the stride.
            const bool whole = rule && width.size() == rule->window;
            windows = whole ? std::min(outputs.last, whole_last_) - w : 1;
            const S* from = row + width.first * column;
            const int64_t step = whole ? rule->stride * column : 0;
            for (int64_t i = 0; i < windows; ++i, from += step, values += run, codes += run)
                fold_window<careful>(from, terms, run, values, codes, odd);
        }
        return !odd.seen();
    }

    // Values that need no turn, of windows that share nothing, one long run after the other: of so many at once the CPU foresees none.
    POOLGRAD_INLINE void fold_runs(const S* from, const Terms& terms, int64_t run, S* values, Odd<V>& odd) const {
        for (int t = 1; t < terms.count; ++t) {
            const S *before = t == 1 ? from : values, *term = from + terms.at[t];
            each_column<V>(run, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
                constexpr int lanes = decltype(lanes_of)::value;
                const auto best = load<V, lanes>(before + at), x = load<V, lanes>(term + at);
                if constexpr (std::is_floating_point_v<V>) odd.template note<lanes>(unordered<V, lanes>(x, best));
                store<V, lanes>(values + at, larger<V, lanes>(x, best));
            });
        }
    }

    // The lists for the longest windows and for others are kept.
    POOLGRAD_INLINE const Terms& listed(Rooms& rooms, int64_t deep, int64_t high, int64_t wide, int64_t pitch) const {
        Terms& terms = rooms.terms[(high == space_.height.longest_window()) * 2 + (wide == space_.width.longest_window())];
        if (terms.sizes.depth != deep || terms.sizes.height != high || terms.sizes.width != wide) list(terms, deep, high, wide, pitch);
        return terms;
    }
    POOLGRAD_NOINLINE void list(Terms& terms, int64_t deep, int64_t high, int64_t wide, int64_t pitch) const {
        terms.sizes = {deep, high, wide}, terms.count = 0;
        for (int64_t z = 0; z < deep; ++z)
            for (int64_t y = 0; y < high; ++y)
                for (int64_t x = 0; x < wide; ++x, ++terms.count) {
                    terms.at[terms.count] = space_.input_at(0, z, y, x) * pitch;
                    terms.codes[terms.count] = C(uint64_t(z) * space_.step[0] + uint64_t(y) * space_.step[1] + uint64_t(x) * space_.step[2]);
                }
    }

    // The maxima of a row, or a part of it, of a source whose elements lie `pitch` apart.
    void at_once(Rooms& rooms, const S* source, int64_t pitch, int64_t d, int64_t h, Range outputs, S* values, C* codes) const {
        const Range depth = space_.depth.window(d), height = space_.height.window(h);
        const S* row = source + space_.input_at(0, depth.first, height.first, 0) * pitch + rooms.inner.first;
        if constexpr (!coded)
            if (!rooms.nan) rooms.nan = !fold_row<false>(rooms, row, pitch, depth.size(), height.size(), outputs, values, codes);
        if constexpr (coded || std::is_floating_point_v<V>)  // from its first NaN on, a box is looked at more slowly
            if (coded || rooms.nan) fold_row<true>(rooms, row, pitch, depth.size(), height.size(), outputs, values, codes);
    }

    const S* const source_;
    const MaxSpace& space_;
    const Turn<V> sign_;
    const Way<S, V> way_;
    const bool by_runs_;
    static constexpr int kByTurns = 16;  // elements of a window that are read by turns
    int64_t whole_last_ = 0;  // behind the last window of width that is not clipped at its end
};

}  // namespace poolgrad::POOLGRAD_ISA
