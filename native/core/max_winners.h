// Winners of the max family: what a code says and which codes a window has, how codes are stored, and the values that winners point at.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

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
    static uint32_t pack_lengths(int64_t depth, int64_t height, int64_t width) {
        return uint32_t((depth - 1) << 20 | (height - 1) << 10 | (width - 1));
    }
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
