// Maxima of neighbouring windows that share most of their elements, four at a time: what they have in common is folded once, and what comes
// before and behind it step by step.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Whether that is compiled: for integers it is not worth the code.
template <class S, class V>
constexpr bool kShares = is_float<S> && !kPlain<S, V>;

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

    // put(at, i, the first maximum of window i) for cells of so many elements of a row of at least one: of read(at, element), from which
    // join(one, later one) chooses. A cell that is read in turn begins as first(at, element), and next(at, element, it) is the one that follows.
    template <int elements, class Read, class First, class Next, class Join, class Put>
    POOLGRAD_INLINE void fold(int64_t length, const Read& read, const First& first, const Next& next, const Join& join,
                              const Put& put) const {
        for (int64_t place = 0; place < length; place += elements) {
            const int64_t at = std::min(place, length - elements);
            auto cell = first(at, windows[kCount - 1].first);
            auto common = cell.found;
            for (int64_t y = windows[kCount - 1].first + 1; y < windows[0].last; ++y)
                cell = next(at, y, cell), common = join(common, cell.found);
            from<0>(
                common, [&](int64_t y) POOLGRAD_LAMBDA { return read(at, y); }, join,
                [&](int i, const auto& best) POOLGRAD_LAMBDA { put(at, i, best); });
        }
    }
    // The same of value(at, element) without codes, two registers at a time where a row has them.
    template <class V, class Value, class Put>
    POOLGRAD_INLINE void fold_values(int64_t length, const Value& value, const Put& put) const {
        constexpr int lanes = kLanes<V>;
        struct Both {
            Vector<V, lanes> first, second;
        };
        if (length >= 2 * lanes)
            fold_cells<2 * lanes>(
                length, [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return Both{value(at, y), value(at + lanes, y)}; },
                [](const Both& best, const Both& x) POOLGRAD_LAMBDA {
                    return Both{larger<V, lanes>(x.first, best.first), larger<V, lanes>(x.second, best.second)};
                },
                [&](int64_t at, int i, const Both& best) POOLGRAD_LAMBDA { put(at, i, best.first), put(at + lanes, i, best.second); });
        else
            fold_cells<lanes>(
                length, value, [](Vector<V, lanes> best, Vector<V, lanes> x) POOLGRAD_LAMBDA { return larger<V, lanes>(x, best); }, put);
    }
    // The same of cells that do not depend on the one before.
    template <int elements, class Read, class Join, class Put>
    POOLGRAD_INLINE void fold_cells(int64_t length, const Read& read, const Join& join, const Put& put) const {
        struct Alone {
            decltype(read(int64_t(0), int64_t(0))) found;
        };
        fold<elements>(
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
        shared.template fold_cells<lanes>(
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
        shared.template fold_values<V>(
            length, value, [&](int64_t at, int i, Vector<V, lanes> best) POOLGRAD_LAMBDA { store<V, lanes>(values + i * pitch + at, best); });
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
        shared.template fold<lanes>(
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
        shared.template fold_values<V>(
            length, value, [&](int64_t at, int i, Vector<V, lanes> best) POOLGRAD_LAMBDA { put(at, i, best, Vector<C, lanes>{}); });
    }
}

}  // namespace poolgrad::POOLGRAD_ISA
