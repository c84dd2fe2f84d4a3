// Small regular windows where inner is 1, whole in registers: the rows of a window are folded down, register by register, and what
// results is dealt out by the stride and folded along width. Nothing goes through memory in between, and rows need not fill a register.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Rows of windows that are folded at once, at most: beyond, neighbouring windows had better share what they have in common.
inline constexpr int64_t kSlideRows = 9;

// Whether rows of so many bytes had better be fetched, some ahead: shorter ones follow each other so closely that the CPU foresees them, and of
// those that fill two pages it foresees each, unless the next row of windows reads most of them again.
inline constexpr int64_t kLongRowBytes = 512;
inline bool fetches_rows(int64_t bytes, int64_t stride) { return bytes >= kLongRowBytes && (bytes <= 8192 || stride == 1); }

// Rows of outputs whose windows along height are kept, for the next plane.
inline constexpr int64_t kSlideHeights = 64;

// Calls function(Constant<stride>, Constant<window>) for the windows that have code of their own, else says no. Every second element
// is such a window only for averages.
template <bool single = false, class Function>
POOLGRAD_INLINE bool with_small_window(int64_t stride, int64_t window, const Function& function) {
    if constexpr (single)
        if (stride == 2 && window == 1) return function(Constant<2>(), Constant<1>()), true;
    switch (stride * 8 + window) {
        case 1 * 8 + 3: return function(Constant<1>(), Constant<3>()), true;
        case 2 * 8 + 2: return function(Constant<2>(), Constant<2>()), true;
        case 2 * 8 + 3: return function(Constant<2>(), Constant<3>()), true;
        case 4 * 8 + 4: return function(Constant<4>(), Constant<4>()), true;
        default: return false;
    }
}
template <bool single = false>
bool is_small_window(int64_t stride, int64_t window) {
    return stride <= 4 && window < 8 && with_small_window<single>(stride, window, [](auto, auto) {});
}

// Maxima and their codes.
template <class V, class C>
struct Coded {
    Vector<V, kLanes<V>> values;
    Vector<C, kLanes<V>> codes;
};
template <int first, int step, class V>
POOLGRAD_INLINE V every_of(const V& a, const V& b) {
    return every<first, step>(a, b, std::make_index_sequence<sizeof(V) / sizeof(V{}[0])>());
}

// Of registers that hold consecutive elements: elements t, t + stride, t + 2 * stride, ...
template <int stride, int t, int count, class Cell>
POOLGRAD_INLINE Cell term_of(const Cell* cells) {
    constexpr int r = t % stride, shift = t / stride;
    const auto cell = [&](int i) POOLGRAD_LAMBDA { return cells[i < count ? i : count - 1]; };  // what is beyond is not looked at
    const auto phase = [&](int i) POOLGRAD_LAMBDA {
        if constexpr (stride == 1)
            return cell(i);
        else if constexpr (stride == 2)
            return every_of<r, 2>(cell(2 * i), cell(2 * i + 1));
        else
            return every_of<r / 2, 2>(every_of<r % 2, 2>(cell(4 * i), cell(4 * i + 1)), every_of<r % 2, 2>(cell(4 * i + 2), cell(4 * i + 3)));
    };
    if constexpr (shift == 0)
        return phase(0);
    else
        return every_of<shift, 1>(phase(0), phase(1));
}
template <int stride, int count, class Cell, class Join, std::size_t... t>
POOLGRAD_INLINE Cell join_terms(const Cell* cells, const Join& join, std::index_sequence<t...>) {
    Cell joined = term_of<stride, 0, count>(cells);
    ((joined = join(joined, term_of<stride, int(t) + 1, count>(cells), int(t) + 1)), ...);
    return joined;
}

// Every second element of two registers with consecutive ones, from `first` on: within each part of 16 bytes those of one, then those of the
// other, which is one instruction.
template <int first, class V, std::size_t... i>
POOLGRAD_INLINE V every_second(V a, V b, std::index_sequence<i...>) {
    constexpr std::size_t count = sizeof...(i), part = 16 / sizeof(V{}[0]), half = part / 2;
    return __builtin_shufflevector(a, b, int(i / part * part + i % half * 2 + first + (i % part >= half ? count : 0))...);
}
template <int first, class V>
POOLGRAD_INLINE V every_second(const V& a, const V& b) {
    return every_second<first>(a, b, std::make_index_sequence<sizeof(V) / sizeof(V{}[0])>());
}

// use(first, second, ... terms of the windows of a register): of read(i, at), the i-th load, from the element `at` on. note(x, y) sees all that
// is read. The windows are in an order of their own, in_order<stride> puts what came of them into the right one: once, not for each term.
template <int stride, int window, int lanes, class Read, class Note, class Use>
POOLGRAD_INLINE void with_terms(const Read& read, const Note& note, const Use& use) {
    const auto a = read(0, 0);
    if constexpr (stride == 1) {
        static_assert(window == 3);
        const auto b = read(1, 1), c = read(2, 2);
        note(a, c);
        use(a, b, c);
    } else {
        const auto b = read(1, lanes);
        note(a, b);
        if constexpr (stride == 4) {
            const auto c = read(2, 2 * lanes), d = read(3, 3 * lanes);
            note(c, d);
            if constexpr (sizeof(a[0]) == 4) {
                const auto even = every_second<0>(a, b), odd = every_second<1>(a, b), evens = every_second<0>(c, d), odds = every_second<1>(c, d);
                use(every_second<0>(even, evens), every_second<0>(odd, odds), every_second<1>(even, evens), every_second<1>(odd, odds));
            } else {
                const decltype(a) cells[] = {a, b, c, d};
                use(term_of<4, 0, 4>(cells), term_of<4, 1, 4>(cells), term_of<4, 2, 4>(cells), term_of<4, 3, 4>(cells));
            }
        } else if constexpr (window == 3) {
            const auto third = every_second<1>(read(2, 1), read(3, lanes + 1));
            note(third, third);
            use(every_second<0>(a, b), every_second<1>(a, b), third);
        } else {
            use(every_second<0>(a, b), every_second<1>(a, b));
        }
    }
}
template <int stride, class V, std::size_t... i>
POOLGRAD_INLINE V in_order(V v, std::index_sequence<i...>) {
    constexpr std::size_t count = sizeof...(i), size = sizeof(V{}[0]), pair = 8 / size;
    if constexpr (stride == 1 || sizeof(V) == 16 || (stride == 4 && size != 4))
        return v;
    else if constexpr (stride == 2)
        return __builtin_shufflevector(v, v, int((i / pair % 2 * 2 + i / pair / 2) * pair + i % pair)...);
    else
        return __builtin_shufflevector(v, v, int(i % 2 * (count / 2) + i / 2)...);
}
template <int stride, class V>
POOLGRAD_INLINE V in_order(const V& v) {
    return in_order<stride>(v, std::make_index_sequence<sizeof(V) / sizeof(V{}[0])>());
}

// function(Constant<0>, Constant<1>, ...)
template <class Function, int... i>
POOLGRAD_INLINE void with_constants(const Function& function, std::integer_sequence<int, i...>) {
    function(Constant<i>()...);
}
template <int count, class Function>
POOLGRAD_INLINE void with_constants(const Function& function) {
    with_constants(function, std::make_integer_sequence<int, count>());
}

// put(i, the join of a window's terms) for the outputs i, i + 1, ... of a register each. column(k, is it one of `whole`) gives the k-th register
// of the row, from the first window's first element on; join(the terms before, term, its number).
template <int stride, int window, int lanes, class Column, class Join, class Put>
POOLGRAD_INLINE void slide(int64_t outputs, Range whole, const Column& column, const Join& join, const Put& put) {
    using Cell = decltype(column(int64_t(0), std::true_type()));
    constexpr int count = ((lanes - 1) * stride + window + lanes - 1) / lanes, kept = count - stride;
    static_assert(kept >= 0);
    Cell cells[count];
    for (int i = 0; i < kept; ++i) cells[stride + i] = column(i, std::false_type());
    int64_t next = kept;
    for (int64_t at = 0; at < outputs; at += lanes) {
        for (int i = 0; i < kept; ++i) cells[i] = cells[stride + i];
        if (next >= whole.first && next + stride <= whole.last)
            for (int i = kept; i < count; ++i) cells[i] = column(next++, std::true_type());
        else
            for (int i = kept; i < count; ++i) cells[i] = column(next++, std::false_type());
        put(at, join_terms<stride, count>(cells, join, std::make_index_sequence<std::size_t(window - 1)>()), std::false_type());
    }
}

// step(k, is it one of `plain`) for k < steps. Those in a loop of their own stay in registers, which what the others call would not leave alone.
template <class Step>
POOLGRAD_INLINE void each_step(int64_t steps, Range plain, const Step& step) {
    for (int64_t k = 0; k < steps;) {
        if (k < plain.first || k >= plain.last) step(k++, std::false_type());
        for (; k >= plain.first && k < plain.last; ++k) step(k, std::true_type());
    }
}

// The same of windows of 3 by 1, where put also hears whether it is one of `whole` outputs, and column whether it is one of `filled`.
template <int lanes, class Column, class Put>
POOLGRAD_INLINE void slide_by_one(int64_t outputs, int64_t whole, Range filled, const Column& column, const Put& put) {
    auto now = column(int64_t(0), std::false_type());
    const Range plain{filled.first - 1, std::min(filled.last - 1, divide_up(whole, lanes))};
    each_step(divide_up(outputs, lanes), plain, [&](int64_t k, auto is_plain) POOLGRAD_LAMBDA {
        const auto next = column(k + 1, is_plain);
        put(k * lanes, now + every_of<1, 1>(now, next) + every_of<2, 1>(now, next), is_plain);
        now = next;
    });
}

// Windows by 2: put(i, the sums of a register of them, is it one of `whole` outputs); column(k, is it one of `filled`) gives the k-th two registers of
// the row, dealt.
template <int window, int lanes, class Column, class Put>
POOLGRAD_INLINE void slide_by_two(int64_t outputs, int64_t whole, Range filled, const Column& column, const Put& put) {
    constexpr int ahead = window == 3;
    decltype(column(int64_t(0), std::false_type())) now{};
    if constexpr (ahead) now = column(int64_t(0), std::false_type());
    const Range plain{filled.first - ahead, std::min(filled.last - ahead, divide_up(whole, lanes))};
    each_step(divide_up(outputs, lanes), plain, [&](int64_t k, auto is_plain) POOLGRAD_LAMBDA {
        const auto next = column(k + ahead, is_plain);
        if constexpr (window == 1) put(k * lanes, next.first, is_plain);
        if constexpr (window == 2) put(k * lanes, next.first + next.second, is_plain);
        if constexpr (window == 3) put(k * lanes, now.first + now.second + every_of<1, 1>(now.first, next.first), is_plain);
        now = next;
    });
}

// The gradient of windows of 3 by 2: put(i, first, second, is it one of `whole` inputs) for the inputs i, i + 2, ... and those between. Inputs lie
// in two windows and in one by turns; column as above, from the first of the two on. `one_first`: input 0 lies in one.
template <int lanes, class Column, class Put>
POOLGRAD_INLINE void slide_back(int64_t inputs, int64_t whole, bool one_first, Range filled, const Column& column, const Put& put) {
    auto now = column(int64_t(0), std::false_type());
    const Range plain{filled.first - 1, std::min(filled.last - 1, divide_up(whole, 2 * lanes))};
    each_step(divide_up(inputs, 2 * lanes), plain, [&](int64_t k, auto is_plain) POOLGRAD_LAMBDA {
        const auto next = column(k + 1, is_plain);
        const auto later = every_of<1, 1>(now, next), sum = now + later;
        if (one_first)
            put(k * 2 * lanes, now, sum, is_plain);
        else
            put(k * 2 * lanes, sum, later, is_plain);
        now = next;
    });
}

// Two registers of neighbours. Bfloats come dealt at no cost: even elements in one, odd ones in the other. deal() does so with what remains of others.
template <class V>
struct Pair {
    Vector<V, kLanes<V>> first, second;
    POOLGRAD_INLINE Pair operator+(const Pair& more) const { return {first + more.first, second + more.second}; }
};
template <class V, class S>
POOLGRAD_INLINE Pair<V> load_pair(const S* from) {
    if constexpr (std::is_same_v<S, Bfloat> && std::is_same_v<V, float>) {
        Vector<uint32_t, kLanes<V>> words;
        __builtin_memcpy(&words, from, sizeof(words));
        const decltype(words) even = words << 16, odd = words & 0xFFFF0000u;
        return {bit_copy<Vector<V, kLanes<V>>>(even), bit_copy<Vector<V, kLanes<V>>>(odd)};
    } else {
        return {load<V, kLanes<V>>(from), load<V, kLanes<V>>(from + kLanes<V>)};
    }
}
template <class S, class V>
POOLGRAD_INLINE Pair<V> deal(const Pair<V>& pair) {
    if constexpr (std::is_same_v<S, Bfloat> && std::is_same_v<V, float>) return pair;
    return {in_order<2>(every_second<0>(pair.first, pair.second)), in_order<2>(every_second<1>(pair.first, pair.second))};
}

// to <- `count` elements of an array from this index on; zeros where it has none.
template <class S>
inline void copy_clipped(S* to, const S* array, int64_t elements, int64_t index, int64_t count) {
    const int64_t begin = std::clamp<int64_t>(-index, 0, count), end = std::clamp<int64_t>(elements - index, begin, count);
    std::fill_n(to, begin, S()), std::fill_n(to + end, count - end, S());
    if (begin < end) std::memcpy(to + begin, array + index + begin, std::size_t(end - begin) * sizeof(S));
}
// A register of them, often of short rows: what copy_clipped asks about takes longer.
template <class V, class S>
POOLGRAD_NOINLINE Vector<V, kLanes<V>> load_clipped(const S* array, int64_t elements, int64_t index) {
    const int64_t begin = std::max<int64_t>(0, index), end = std::min(elements, index + kLanes<V>);
    S part[kLanes<V>] = {};
    if (begin < end) std::memcpy(part + (begin - index), array + begin, std::size_t(end - begin) * sizeof(S));
    return load<V, kLanes<V>>(part);
}

// Registers of rows of `size` elements, one at a time or two, dealt; the first begins at column `start`, which may lie before them.
template <class S, class V, bool pairs = false>
class RowReader {
    static constexpr int lanes = kLanes<V>, elements_each = pairs ? 2 * lanes : lanes;
    using Cell = std::conditional_t<pairs, Pair<V>, Vector<V, lanes>>;
    using Raw = typename BitsOf<sizeof(V)>::type;
    using There = std::array<Vector<Raw, lanes>, pairs ? 2 : 1>;
    static constexpr int64_t kMostBefore = 3;  // columns before a row: none of the small windows reaches further

  public:
    static constexpr int64_t each = elements_each;  // of a column

    RowReader(int64_t size, int64_t start)
        : size_(size), start_(start), last_(divide_up(size - start, elements_each)),
          whole_{divide_up(std::max<int64_t>(0, -start), elements_each), (size - start) / elements_each}, first_(there(0)), rest_(there(last_ - 1)) {}

    // The columns that are read of a row, also such as it has not, where at most `count` from the first on are wanted.
    Range columns(int64_t count) const { return {start_, start_ + std::min(last_, divide_up(count, elements_each)) * elements_each}; }
    // Which registers a row fills.
    Range whole() const { return whole_; }

    static POOLGRAD_INLINE Cell nothing() {
        if constexpr (pairs)
            return {spread<V, lanes>(V(-0.0)), spread<V, lanes>(V(-0.0))};
        else
            return spread<V, lanes>(V(-0.0));
    }

    // The k-th as fold(read) makes it, where read(row) is that of the row which begins there; nothing() beyond the row.
    template <bool whole, class Fold>
    POOLGRAD_INLINE Cell column(int64_t k, const Fold& fold) const {
        const int64_t from = start_ + k * elements_each;
        if constexpr (!whole)
            if (k >= last_) return nothing();
        const Cell cell = dealt(fold([=](const S* row) POOLGRAD_LAMBDA { return read(row + from); }));
        if (whole || (k >= whole_.first && k < whole_.last)) return cell;
        if constexpr (elements_each > kMostBefore) return choose(k == 0 ? first_ : rest_, cell);
        return choose(there(k), cell);
    }

  private:
    static POOLGRAD_INLINE Cell read(const S* from) {
        if constexpr (pairs)
            return load_pair<V>(from);
        else
            return load<V, lanes>(from);
    }
    static POOLGRAD_INLINE Cell dealt(const Cell& cell) {
        if constexpr (pairs)
            return deal<S>(cell);
        else
            return cell;
    }
    // The lanes of the k-th that a row has.
    There there(int64_t k) const {
        There result;
        for (int i = 0; i < elements_each; ++i) {
            const int64_t column = start_ + k * elements_each + i;
            result[std::size_t(pairs ? i % 2 : 0)][pairs ? i / 2 : i] = Raw(column >= 0 && column < size_ ? -1 : 0);
        }
        return result;
    }
    POOLGRAD_INLINE static Cell choose(const There& there, const Cell& cell) {
        if constexpr (pairs)
            return {select<V, lanes>(there[0], cell.first, nothing().first), select<V, lanes>(there[1], cell.second, nothing().second)};
        else
            return select<V, lanes>(there[0], cell, nothing());
    }

    int64_t size_, start_, last_;
    Range whole_;         // those that the row fills
    There first_, rest_;  // lanes of the first and of the last one
};

}  // namespace poolgrad::POOLGRAD_ISA
