// Rows of one number a column, folded along width a register of windows at a time: some columns of each window are loaded as they lie, side by
// side, and turned, so that the first columns of all windows are one register, and the second ones. Windows may begin anywhere, at any stride.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

inline constexpr int64_t kPartColumns = 8;  // of a window

// As many columns of a register of windows as a part has elements.
template <class V>
POOLGRAD_INLINE std::array<Vector<V, kLanes<V>>, kPart<V>> turned_part(const V* row, const int32_t* firsts) {
    constexpr int part = kPart<V>, second = (kParts<V> - 1) * part;
    std::array<Vector<V, kLanes<V>>, part> cells;
    for (int i = 0; i < part; ++i) cells[std::size_t(i)] = load_parts<V>(row + firsts[i], row + firsts[i + second]);
    transpose_parts<V>(cells.data());
    return cells;
}
// fold(c, column c of a register of windows in each of some rows) in turn, c a Constant; windows begin at firsts[i] of a row. Whole parts are
// read, also beyond a window. The rows' elements are of one size.
template <int columns, class Fold, class V, class... Others>
POOLGRAD_INLINE void each_part_column(const Fold& fold, const int32_t* firsts, const V* row, const Others*... others) {
    constexpr int part = kPart<V>;
    with_constants<(columns + part - 1) / part>([&](auto... piece) POOLGRAD_LAMBDA {
        const auto take = [&](auto piece) POOLGRAD_LAMBDA {
            constexpr int first = decltype(piece)::value * part;
            const auto fold_all = [&](const auto&... cells) POOLGRAD_LAMBDA {
                with_constants<std::min(part, columns - first)>([&](auto... c) POOLGRAD_LAMBDA {
                    const auto fold_one = [&](auto c) POOLGRAD_LAMBDA { fold(Constant<first + c()>(), cells[std::size_t(c())]...); };
                    (fold_one(c), ...);
                });
            };
            fold_all(turned_part(row + first, firsts), turned_part(others + first, firsts)...);
        };
        (take(piece), ...);
    });
}

// Calls function(Constant<columns>) with as many as the longest window has, at least two.
template <class Function>
POOLGRAD_INLINE void with_columns(int64_t longest, const Function& function) {
    switch (longest) {
        case 1: case 2: return function(Constant<2>());
        case 3: return function(Constant<3>());
        case 4: return function(Constant<4>());
        case 5: return function(Constant<5>());
        case 6: return function(Constant<6>());
        case 7: return function(Constant<7>());
        default: return function(Constant<8>());
    }
}

}  // namespace poolgrad::POOLGRAD_ISA
