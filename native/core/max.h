// What all of the max family share: types, comparisons and folds of rows. A maximum is the first one in row-major order, NaN above all; its
// winner is a code: the row-major offset from the clipped window's start, in the table's longest windows. Values are compared along width,
// then height, then depth: that is the row-major rule, axis by axis.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Comparisons run in V, codes in C of the same size. Promotion is exact and keeps order, ties and NaN. S is never unsigned: those
// integers are read as signed ones, and turned.
template <class S, bool wide>
struct Compute {
    using Integer = std::conditional_t<wide || sizeof(S) == 8, int64_t, int32_t>;
    using V = std::conditional_t<is_float<S>, std::conditional_t<wide || sizeof(S) == 8, double, float>, Integer>;
    using C = std::conditional_t<sizeof(V) == 8, uint64_t, uint32_t>;
};

// Codes beyond 32 bits, of windows of 2^32 elements: only the way that is always right is compiled for them.
template <class S, class V>
constexpr bool kPlain = sizeof(V) > 4 && sizeof(S) < 8;

// 32 or 64 bits: these can be turned into lanes and picked. Small integers without codes are compared as they are.
template <class S, class V>
constexpr bool kWords = !kPlain<S, V> && sizeof(V) >= 4;

// A minimum is a maximum of values with the sign (floats) or all bits (integers) turned over, and unsigned integers have the order of
// signed ones with the first bit turned over.
template <class V>
struct Turn {
    using Bits = typename BitsOf<sizeof(V)>::type;
    Bits mask = 0;
    template <class S>
    Turn(const MaxCall& call, Type<S>) {
        if (call.minimum) mask = std::is_floating_point_v<V> ? std::numeric_limits<Bits>::min() : Bits(-1);
        if (call.kind == Kind::uint8 || call.kind == Kind::uint16 || call.kind == Kind::uint32 || call.kind == Kind::uint64)
            mask = Bits(mask ^ Bits(~uint64_t(0) << (8 * sizeof(S) - 1)));
    }
    template <int lanes>
    POOLGRAD_INLINE Vector<V, lanes> turn(Vector<V, lanes> value) const {
        return bit_copy<Vector<V, lanes>>(Vector<Bits, lanes>(bit_copy<Vector<Bits, lanes>>(value) ^ spread<Bits, lanes>(mask)));
    }
};

// Below everything, so that it never beats a value.
template <class V>
constexpr V kLowest = V(std::is_floating_point_v<V> ? -std::numeric_limits<V>::infinity() : std::numeric_limits<V>::lowest());

// x > best, or the first NaN.
template <class V, int lanes>
POOLGRAD_INLINE Mask<V, lanes> better(Vector<V, lanes> x, Vector<V, lanes> best) {
    if constexpr (!std::is_floating_point_v<V>)
        return x > best;
    else if constexpr (lanes == 1)
        return !(x <= best) && best == best;
    else
        return ~(x <= best) & (best == best);
}

// values, codes <- of `count` terms the one that wins over those before it, element by element. Of the lanes from `at` on, term(lanes, t, at)
// gives values, code_of(lanes, t, at) codes, and wins(lanes, x, best, its code, best's code) where x replaces best.
template <bool coded, class V, class C, class Count, class Term, class Code, class Wins>
POOLGRAD_INLINE void fold_rows(Count count, int64_t length, V* values, C* codes, const Term& term, const Code& code_of, const Wins& wins) {
    each_column<V>(length, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        Vector<V, lanes> best = term(lanes_of, 0, at);
        Vector<C, lanes> code{}, other{};
        if constexpr (coded) code = code_of(lanes_of, 0, at);
        for (int64_t t = 1; t < count; ++t) {
            const Vector<V, lanes> x = term(lanes_of, t, at);
            if constexpr (coded) other = code_of(lanes_of, t, at);
            const auto mask = wins(lanes_of, x, best, other, code);
            best = select<V, lanes>(mask, x, best);
            if constexpr (coded) code = select<C, lanes>(mask, other, code);
        }
        store<V, lanes>(values + at, best);
        if constexpr (coded) store<C, lanes>(codes + at, code);
    });
}

// What was read and needs the careful way.
template <class V>
struct Odd {
    Mask<V, kLanes<V>> many{};
    bool one = false;
    bool seen() const { return one || any<V>(many); }
    void join(const Odd& other) { many |= other.many, one |= other.one; }
    template <int lanes>
    POOLGRAD_INLINE void note(Mask<V, lanes> found) {
        if constexpr (lanes == 1)
            one |= found;
        else
            many |= found;
    }
};

// values <- the first maximum of `count` terms, as long as no NaN is noted.
template <class V, class Count, class Term>
POOLGRAD_INLINE void fold_largest(Count count, int64_t length, V* values, const Term& term, Odd<V>& odd) {
    each_column<V>(length, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        Vector<V, lanes> best = term(lanes_of, 0, at);
        if constexpr (std::is_floating_point_v<V>)
            if (count == 1) odd.template note<lanes>(unordered<V, lanes>(best, best));
        for (int64_t t = 1; t < count; ++t) {
            const Vector<V, lanes> x = term(lanes_of, t, at);
            if constexpr (std::is_floating_point_v<V>) odd.template note<lanes>(unordered<V, lanes>(x, best));
            best = larger<V, lanes>(x, best);
        }
        store<V, lanes>(values + at, best);
    });
}

// values, codes <- the first maximum of rows of the source, NaN above all: of rows(t) and their code_of(t).
template <bool coded, class V, class C, class Rows, class Code>
POOLGRAD_INLINE void best_of_rows(const Rows& rows, const Code& code_of, int64_t count, Turn<V> sign, int64_t length, V* values, C* codes) {
    fold_rows<coded>(
        count, length, values, codes,
        [&](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA { return sign.template turn<lanes()>(load<V, lanes()>(rows(t) + at)); },
        [&](auto lanes, int64_t t, int64_t) POOLGRAD_LAMBDA { return spread<C, lanes()>(code_of(t)); },
        [](auto lanes, auto x, auto best, auto, auto) POOLGRAD_LAMBDA { return better<V, lanes()>(x, best); });
}

// The same of rows without NaN, which is noted. Without codes so is -0.0, which differs from what it equals.
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

// Room for maxima and, if they are wanted, their codes.
template <class V, class C, bool coded>
struct MaxRoom {
    V* values = nullptr;
    C* codes = nullptr;
    static MaxRoom take(Arena& arena, int64_t count) { return {arena.take<V>(count), arena.take<C>(coded ? count : 0)}; }
    MaxRoom at(int64_t index) const { return {values + index, coded ? codes + index : nullptr}; }
};

// A row of maxima so far, which has codes of its own to add to.
template <class V, class C>
struct BestRow {
    const V* values;
    const C* codes;
    C add;
};

// values, codes <- the first maximum of such rows without NaN: of equals the one with the smallest code.
template <bool coded, class V, class C>
POOLGRAD_NOINLINE void first_of_best(const BestRow<V, C>* rows, int64_t count, int64_t length, V* values, C* codes) {
    const auto term = [=](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA { return load<V, lanes()>(rows[t].values + at); };
    if constexpr (coded) {
        fold_rows<true>(
            count, length, values, codes, term,
            [=](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA {
                return Vector<C, lanes()>(load<C, lanes()>(rows[t].codes + at) + spread<C, lanes()>(rows[t].add));
            },
            [](auto, auto x, auto best, auto other, auto code) POOLGRAD_LAMBDA { return (x > best) | ((x == best) & (other < code)); });
    } else {
        Odd<V> none;
        fold_largest(count, length, values, term, none);
    }
}

// A function that is called too rarely to be compiled for each of its callers. Refers to it: it must stay.
template <class Signature>
class Reference;
template <class Result, class... Given>
class Reference<Result(Given...)> {
  public:
    template <class Function>
    Reference(const Function& function)
        : function_(&function), call_([](const void* self, Given... given) -> Result { return (*static_cast<const Function*>(self))(given...); }) {}
    Result operator()(Given... given) const { return call_(function_, given...); }

  private:
    const void* function_;
    Result (*call_)(const void*, Given...);
};

// Sizes and positions of a call: input and output are [outer, depth, height, width, inner].
struct MaxSpace {
    explicit MaxSpace(const Layout& layout)
        : depth(*layout.axes[0]), height(*layout.axes[1]), width(*layout.axes[2]), outer(layout.outer), inner(layout.inner),
          step(layout.code_step) {}

    const Axis &depth, &height, &width;
    int64_t outer, inner;
    std::array<uint64_t, 3> step;

    int64_t input_at(int64_t o, int64_t d, int64_t h, int64_t w) const {
        return (((o * depth.input_size() + d) * height.input_size() + h) * width.input_size() + w) * inner;
    }
    int64_t output_at(int64_t o, int64_t d, int64_t h, int64_t w) const {
        return (((o * depth.output_size() + d) * height.output_size() + h) * width.output_size() + w) * inner;
    }
    int64_t inputs() const { return input_at(outer, 0, 0, 0); }
    int64_t outputs() const { return output_at(outer, 0, 0, 0); }
};

}  // namespace poolgrad::POOLGRAD_ISA
