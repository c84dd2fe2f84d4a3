// Rows that are picked from others, one element each: a register at a time by a load and a permute.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Where each element of a unit comes from, and with which weights. Registers of them may begin anywhere.
template <class A>
class Places {
    static constexpr int lanes = kLanes<A>, words = int(sizeof(A) / 4);
    using Cell = Vector<A, lanes>;

  public:
    static constexpr int64_t kSlack = 2 * lanes;  // elements that may be read behind the source

    Places() = default;
    Places(Arena& arena, int64_t most) : words_(arena.take<int32_t>((most + lanes) * words)), least_(arena.take<int32_t>(most + lanes)) {
        for (A*& row : weights_) row = arena.take<A>(most);
    }

    // Elements from `at` on: `count` neighbours come from those from `from` on, or from nowhere (-1); with these weights along depth, height
    // and width.
    void set(int64_t at, int64_t count, int32_t from, const std::array<A, 3>& weights) {
        for (int64_t i = at; i < at + count; ++i, from += from >= 0) {
            least_[i] = from;
            for (std::size_t axis = 0; axis < 3; ++axis) weights_[axis][i] = weights[axis];
        }
    }
    // Must be called when `count` are set. All is `repeated`, each time from elements that lie so many further on.
    void finish(int64_t count, int64_t repeated, int64_t further) {
        const int64_t all = count * repeated;
        gaps_ = std::find(least_, least_ + count, -1) < least_ + count;
        for (std::size_t axis = 0; axis < 3; ++axis) {
            const A* weights = weights_[axis];
            alike_[axis] = weights[0];
            if (std::find_if(weights, weights + count, [=](A weight) { return weight != weights[0]; }) < weights + count)
                varied_ = std::max(varied_, 3 - int(axis));
            for (int64_t i = count; i < all; ++i) weights_[axis][i] = weights[i - count];
        }
        for (int64_t i = count; i < all; ++i) least_[i] = least_[i - count] < 0 ? -1 : least_[i - count] + int32_t(further);
        std::fill_n(least_ + all, lanes, -1);
        int32_t before = 0;
        for (int64_t i = 0; i < all + lanes; ++i) {
            const int32_t nowhere = least_[i] < 0 ? INT32_MIN : 0;
            least_[i] = before = nowhere ? before : least_[i];
            for (int word = 0; word < words; ++word) words_[i * words + word] = (before * words + word) | nowhere;
        }
        // The least that a register reads.
        for (int step = 1; step < lanes; step *= 2)
            for (int64_t i = 0; i + step < all + lanes; ++i) least_[i] = std::min(least_[i], least_[i + step]);
    }
    // Weights along axes before a unit's.
    void set_weight(int axis, A weight) { alike_[std::size_t(axis)] = weight; }

    // What is laid: the first `count` elements of a unit from `from` on, into so many rows that follow each other; and the same of more units.
    template <class S>
    struct Block {
        const S* from;
        S* to;
        int64_t count, rows;
        int64_t units, further;  // the distance of units in the source; their rows follow each other
    };
    template <class S>
    void lay(const Block<S>& block) const {
        if (block.count < lanes) return lay_few(block);
        const auto lay = [&](auto varied) POOLGRAD_LAMBDA {
            if (gaps_)
                lay_registers<true, varied()>(block);
            else
                lay_registers<false, varied()>(block);
        };
        switch (varied_) {
            case 0: return lay(Constant<0>());
            case 1: return lay(Constant<1>());
            case 2: return lay(Constant<2>());
            default: return lay(Constant<3>());
        }
    }

  private:
    template <class S>
    POOLGRAD_NOINLINE void lay_few(const Block<S>& block) const {
        for (int64_t row = 0; row < block.units * block.rows; ++row)
            for (int64_t i = 0; i < block.count; ++i) {
                A value = A(0);
                if (words_[i * words] >= 0) {
                    value = load<A, 1>(block.from + row / block.rows * block.further + words_[i * words] / words);
                    for (std::size_t axis = 0; axis < 3; ++axis) value = value * (int(axis) >= 3 - varied_ ? weights_[axis][i] : alike_[axis]);
                }
                store<A, 1>(block.to + row * block.count + i, value);
            }
    }
    // The last `varied` axes have weights that vary.
    template <bool gaps, int varied, class S>
    POOLGRAD_NOINLINE void lay_registers(const Block<S>& block) const {
#ifdef POOLGRAD_AVX2
        const int32_t *all = words_, *least = least_;
        const A *depths = weights_[0], *heights = weights_[1], *widths = weights_[2];
        const Cell depth = spread<A, lanes>(alike_[0]), height = spread<A, lanes>(alike_[1]), width = spread<A, lanes>(alike_[2]);
        const auto value = [=](const S* from, int64_t at) POOLGRAD_LAMBDA {
            const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(all + at * words));
            const __m256i offset = _mm256_sub_epi32(index, _mm256_set1_epi32(least[at] * words));
            const __m256i raw = bit_copy<__m256i>(load<A, lanes>(from + least[at]));
            auto picked = bit_copy<Cell>(_mm256_permutevar8x32_epi32(raw, offset));
            picked = picked * (varied > 2 ? load<A, lanes>(depths + at) : depth);
            picked = picked * (varied > 1 ? load<A, lanes>(heights + at) : height);
            picked = picked * (varied > 0 ? load<A, lanes>(widths + at) : width);
            if constexpr (gaps) return bit_copy<Cell>(_mm256_andnot_si256(_mm256_srai_epi32(index, 31), bit_copy<__m256i>(picked)));
            return picked;
        };
        // The last register overlaps the one before.
        const auto lay = [=](auto rows) POOLGRAD_LAMBDA {
            const int64_t count = block.count, last = count - lanes;
            const S* from = block.from;
            S* to = block.to;
            for (int64_t unit = 0; unit < block.units; ++unit, from += block.further, to += rows * count)
                for (int64_t next = 0; next < last + lanes; next += lanes) {
                    const int64_t at = std::min(next, last);
                    const Cell picked = value(from, at);
                    S* place = to + at;
                    for (int r = 0; r < rows; ++r, place += count) store<A, lanes>(place, picked);
                }
        };
        switch (block.rows) {
            case 1: return lay(Constant<1>());
            case 2: return lay(Constant<2>());
            case 3: return lay(Constant<3>());
            case 4: return lay(Constant<4>());
            case 5: return lay(Constant<5>());
            default: return lay(block.rows);
        }
#else
        (void)block;
#endif
    }

    int32_t *words_ = nullptr, *least_ = nullptr;  // in units of 32 bits, negative of those from nowhere; the least element of a register's
    A* weights_[3] = {};
    std::array<A, 3> alike_{};  // the weights of axes where they are
    int varied_ = 0;            // the last axes where they are not: none, width or all
    bool gaps_ = false;
};

}  // namespace poolgrad::POOLGRAD_ISA
