// What all of the max family share. A maximum is the first one in row-major order, NaN above all; its winner is a code: the row-major
// offset from the clipped window's start, in the table's longest windows. Values are compared along width, then height, then depth:
// that is the row-major rule, axis by axis.
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

// The same of rows of the source with a code each, and of rows of maxima so far, which have codes of their own to add to.
template <bool coded, class V, class C, class Rows, class Code>
POOLGRAD_INLINE void best_of_rows(const Rows& rows, const Code& code_of, int64_t count, Turn<V> sign, int64_t length, V* values, C* codes) {
    fold_rows<coded>(
        count, length, values, codes,
        [&](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA { return sign.template turn<lanes()>(load<V, lanes()>(rows(t) + at)); },
        [&](auto lanes, int64_t t, int64_t) POOLGRAD_LAMBDA { return spread<C, lanes()>(code_of(t)); },
        [](auto lanes, auto x, auto best, auto, auto) POOLGRAD_LAMBDA { return better<V, lanes()>(x, best); });
}
template <class V, class C>
struct BestRow {
    const V* values;
    const C* codes;
    C add;
};
template <bool coded, class V, class C, class Wins>
POOLGRAD_INLINE void fold_best(const BestRow<V, C>* rows, int64_t count, int64_t length, V* values, C* codes, const Wins& wins) {
    fold_rows<coded>(
        count, length, values, codes,
        [=](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA { return load<V, lanes()>(rows[t].values + at); },
        [=](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA {
            return Vector<C, lanes()>(load<C, lanes()>(rows[t].codes + at) + spread<C, lanes()>(rows[t].add));
        },
        wins);
}

// The same without codes, of maxima without NaN.
template <class V, class C>
POOLGRAD_INLINE void largest_of_best(const BestRow<V, C>* rows, int64_t count, int64_t length, V* values) {
    Odd<V> none;
    fold_largest(
        count, length, values, [=](auto lanes, int64_t t, int64_t at) POOLGRAD_LAMBDA { return load<V, lanes()>(rows[t].values + at); }, none);
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

// A row of the source, and the code that its place adds.
template <class S, class C>
struct Candidate {
    const S* row;
    C code;
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

// Where a code points, from the window's start.
struct Offset {
    int64_t depth, height, width;
};

// Takes codes apart: by a table as long as it stays small, else by division.
class Decoder {
  public:
    explicit Decoder(const MaxSpace& space)
        : step_(space.step), codes_(count(space)), memory_(codes_ * int64_t(sizeof(Offset))) {
        for (int64_t code = 0; code < codes_; ++code) table()[code] = divide(uint64_t(code));
    }
    // An offset outside every window when no window has that code.
    Offset operator()(uint64_t code) const { return code < uint64_t(codes_) ? table()[code] : divide(code); }
    int64_t codes() const { return codes_; }  // that have an entry in the table
    // Of up to 32 codes: which lie in a window of these lengths.
    bool small() const { return codes_ && codes_ <= 32; }
    uint32_t mask(int64_t depth, int64_t height, int64_t width) const {
        uint32_t result = 0;
        for (int64_t code = 0; code < codes_; ++code)
            result |= uint32_t(inside(table()[code], Range{0, depth}, Range{0, height}, Range{0, width})) << code;
        return result;
    }
    static bool inside(const Offset& offset, Range depth, Range height, Range width) {
        return offset.depth < depth.size() && offset.height < height.size() && offset.width < width.size();
    }

    // Of the codes in the table: whether all lie in their windows, of packed lengths lengths_of(Constant<lanes>, index). Codes are divided
    // by multiplying, which is exact for numbers as small as these.
    static uint32_t pack_lengths(int64_t depth, int64_t height, int64_t width) { return uint32_t((depth - 1) << 20 | (height - 1) << 10 | (width - 1)); }
    template <class W, class Lengths>
    bool all_inside(const W* codes, int64_t count, const Lengths& lengths_of) const {
        if (!codes_ || sizeof(W) == 8) return false;
        uint32_t step[2], inverse[2];
        for (std::size_t i = 0; i < 2; ++i) {
            step[i] = uint32_t(std::min(step_[i], uint64_t(kMostCodes)));
            inverse[i] = step[i] ? ((1u << 20) + step[i] - 1) / step[i] : 0;
        }
        const auto most = uint32_t(codes_);
        Odd<uint32_t> outside;
        each_column<uint32_t>(count, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            const Vector<uint32_t, lanes> all = load<uint32_t, lanes>(codes + at), code = all & spread<uint32_t, lanes>(kMostCodes - 1);
            const Vector<uint32_t, lanes> depth = code * inverse[0] >> 20, rest = code - depth * step[0];
            const Vector<uint32_t, lanes> height = rest * inverse[1] >> 20, width = rest - height * step[1];
            const Vector<uint32_t, lanes> lengths = lengths_of(lanes_of, at);
            outside.template note<lanes>((all >= spread<uint32_t, lanes>(most)) | (depth > lengths >> 20) | (height > (lengths >> 10 & 1023u)) |
                                         (width > (lengths & 1023u)));
        });
        return !outside.seen();
    }

  private:
    static constexpr uint32_t kMostCodes = 1024;
    static int64_t count(const MaxSpace& space) {
        const double product = double(space.depth.reach()) * double(space.height.reach()) * double(space.width.reach());
        return product <= double(kMostCodes) && space.step[2] == 1 ? int64_t(product) : 0;
    }
    Offset* table() const { return reinterpret_cast<Offset*>(memory_.data()); }
    Offset divide(uint64_t code) const {
        uint64_t part[3] = {0, 0, 0};
        for (std::size_t i = 0; i < 3; ++i)
            if (step_[i]) part[i] = code / step_[i], code %= step_[i];
        // What is left over would be an offset along an axis that was folded away: outside.
        if (code) part[0] = uint64_t(INT64_MAX);
        const auto bounded = [](uint64_t value) { return int64_t(std::min(value, uint64_t(INT64_MAX))); };
        return {bounded(part[0]), bounded(part[1]), bounded(part[2])};
    }

    std::array<uint64_t, 3> step_;
    int64_t codes_;
    Scratch memory_;
};

// Whether all codes are below 32 and in their mask: masks(Constant<lanes>, index) gives those of some neighbours.
template <class W, class Masks>
POOLGRAD_INLINE bool all_in_masks(const W* codes, int64_t count, const Masks& masks) {
    Vector<uint32_t, kLanes<uint32_t>> missing{};
    uint32_t one_missing = 0;
    each_column<uint32_t>(count, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        // Of 8 bytes, anything beyond 31 becomes a code that no mask has.
        const auto code = [&] {
            if constexpr (sizeof(W) < 8) {
                return load<uint32_t, lanes>(codes + at);
            } else {
                const auto whole = load<uint64_t, lanes>(codes + at);
                const auto beyond = whole > spread<uint64_t, lanes>(31);
                return convert<uint32_t, uint64_t, lanes>(select<uint64_t, lanes>(beyond, spread<uint64_t, lanes>(32), whole));
            }
        }();
        const auto missed = (~(masks(lanes_of, at) >> (code & 31u)) & 1u) | (code & ~31u);
        if constexpr (lanes == 1)
            one_missing |= missed;
        else
            missing |= missed;
    });
    for (int i = 0; i < kLanes<uint32_t>; ++i) one_missing |= missing[i];
    return !one_missing;
}
template <class W>
bool all_in(const W* codes, int64_t count, uint32_t mask) {
    return all_in_masks(codes, count, [=](auto lanes, int64_t) POOLGRAD_LAMBDA { return spread<uint32_t, decltype(lanes)::value>(mask); });
}
template <class W>
bool all_in_each(const W* codes, int64_t count, const uint32_t* masks) {
    return all_in_masks(codes, count, [=](auto lanes, int64_t at) POOLGRAD_LAMBDA { return load<uint32_t, decltype(lanes)::value>(masks + at); });
}

// Calls function(typed pointer) for codes stored in 1, 2, 4 or 8 bytes. Codes of 8 are computed in 8, the others in as many as the
// values take, and only what can occur is compiled.
template <class C, class S, class Function>
void visit_winners(const void* winners, int bytes, const Function& function) {
    if constexpr (sizeof(C) == 8)
        if (bytes == 8) return function(static_cast<const uint64_t*>(winners));
    if constexpr (sizeof(C) <= 4 || sizeof(S) == 8) {
        if (sizeof(C) == 1 || bytes == 1) return function(static_cast<const uint8_t*>(winners));
        if constexpr (sizeof(C) > 1)
            if (sizeof(C) == 2 || bytes == 2) return function(static_cast<const uint16_t*>(winners));
        if constexpr (sizeof(C) > 2) return function(static_cast<const uint32_t*>(winners));
    }
}

// to <- codes of C from and to where they are stored.
template <class S, class C>
void read_codes(C* to, const void* winners, int bytes, int64_t at, int64_t count) {
    visit_winners<C, S>(winners, bytes, [&](const auto* from) {
        each_column<C>(count, [=](auto lanes_of, int64_t i) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            store<C, lanes>(to + i, load<C, lanes>(from + at + i));
        });
    });
}
template <class S, class C>
void write_codes(void* winners, int bytes, int64_t at, const C* from, int64_t count) {
    visit_winners<C, S>(winners, bytes, [&](const auto* typed) {
        using W = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
        W* to = const_cast<W*>(typed) + at;
        each_column<C>(count, [=](auto lanes_of, int64_t i) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            store<C, lanes>(to + i, load<C, lanes>(from + i));
        });
    });
}

// destination[o] = source[winner of o]: the gradient of the gradient.
template <class S>
int64_t take_by_winners(const MaxCall& call) {
    const MaxSpace space(call.layout);
    Tiling tiling{{space.outer, space.depth.output_size(), space.height.output_size(), space.width.output_size(), space.inner}, {}};
    if (tiling.empty()) return -1;
    tiling.tile = tiling.extent;
    tiling.tile[0] = 1;
    balance(tiling, call.workers, int64_t(sizeof(S)) * 2 + call.winner_bytes);
    const Decoder decode(space);
    FirstIndex bad;
    run_boxes(tiling, call.workers, tiling.elements() * int64_t(sizeof(S)) * 2, 0, [&](const Box& box, std::byte*) {
        for (int64_t o = box.outer.first; o < box.outer.last; ++o)
            for (int64_t d = box.depth.first; d < box.depth.last; ++d)
                for (int64_t h = box.height.first; h < box.height.last; ++h)
                    for (int64_t w = box.width.first; w < box.width.last; ++w) {
                        const Range depth = space.depth.window(d), height = space.height.window(h), width = space.width.window(w);
                        const int64_t at = space.output_at(o, d, h, w);
                        S* to = static_cast<S*>(call.destination) + at;
                        visit_winners<uint64_t, uint64_t>(call.winners, call.winner_bytes, [&](const auto* winners) {
                            for (int64_t i = box.inner.first; i < box.inner.last; ++i) {
                                const Offset offset = decode(winners[at + i]);
                                if (Decoder::inside(offset, depth, height, width))
                                    to[i] = static_cast<const S*>(call.source)[space.input_at(o, depth.first + offset.depth,
                                                                                              height.first + offset.height,
                                                                                              width.first + offset.width) + i];
                                else
                                    bad.report(at + i);
                            }
                        });
                    }
    });
    return bad.value();
}

}  // namespace poolgrad::POOLGRAD_ISA
