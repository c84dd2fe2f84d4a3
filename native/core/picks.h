// Terms of sums and maxima along an irregular axis, picked from a row for a register of destinations at a time.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Where each destination's terms begin in a row, and how many it has. What the terms of a register's destinations span is loaded once
// and permuted, where it fits into four registers (gathering instructions took five times as long); else lanes are read one by one.
template <class A>
class Picks {
    static constexpr int kMost = 4;
    static constexpr int lanes = kLanes<A>;
    using Index = Vector<int32_t, lanes>;

  public:
    static constexpr int64_t kSlack = kMost * lanes;  // elements that may be read behind a row

    Picks() = default;
    Picks(Arena& arena, int64_t most) : firsts_(arena.take<int32_t>(most + lanes)), counts_(arena.take<int32_t>(most + lanes)) {}

    // range(i) of the destination i < count: never decreasing, relative to `start`; empty ones have no terms.
    template <class Ranges>
    void prepare(int64_t count, int64_t start, const Ranges& range) {
        int32_t first = 0;
        longest_ = 0;
        for (int64_t i = 0; i < count + lanes; ++i) {
            const Range terms = i < count ? range(i) : Range{0, 0};
            counts_[i] = int32_t(std::max<int64_t>(0, terms.size()));
            if (counts_[i]) first = int32_t(terms.first - start);
            firsts_[i] = first;
            longest_ = std::max(longest_, counts_[i]);
        }
        registers_ = 1;
        for (int64_t at = 0; at < count; at += lanes)
            for (int i = 0; i < lanes; ++i)
                registers_ = std::max(registers_, (firsts_[at + i] + counts_[at + i] - firsts_[at] + lanes - 1) / lanes);
#ifndef POOLGRAD_AVX2
        registers_ = kMost + 1;
#endif
    }
    int32_t longest() const { return longest_; }

    // The terms of the destinations from `at` on.
    class Terms {
      public:
        Terms(const Picks& picks, const A* row, int64_t at)
            : count(load<int32_t, lanes>(picks.counts_ + at)), row_(row + picks.firsts_[at]), registers_(picks.registers_) {
            index_ = load<int32_t, lanes>(picks.firsts_ + at) - spread<int32_t, lanes>(picks.firsts_[at]);
            for (int r = 0; r < kMost && registers_ <= kMost; ++r) loaded_[r] = r < registers_ ? load<A, lanes>(row_ + r * lanes) : Vector<A, lanes>{};
        }
        // Term t of each; anything where there are fewer.
        POOLGRAD_INLINE Vector<A, lanes> term(int32_t t) const {
            const Index index = index_ + t;
            if (registers_ > kMost) {
                Vector<A, lanes> result{};
                for (int i = 0; i < lanes; ++i)
                    if (t < count[i]) result[i] = row_[index[i]];
                return result;
            }
            auto result = permute(loaded_[0], index);
            for (int r = 1; r < kMost; ++r)
                if (r < registers_) result = select<A, lanes>(widened(index >= r * lanes), permute(loaded_[r], index), result);
            return result;
        }
        // Whether there is a term t.
        POOLGRAD_INLINE Mask<A, lanes> has(int32_t t) const { return widened(count > t); }

        const Index count;

      private:
        static Mask<A, lanes> widened(Index mask) { return convert<typename BitsOf<sizeof(A)>::type, int32_t, lanes>(mask); }
        // Lanes of a register by the last bits of an index.
        static POOLGRAD_INLINE Vector<A, lanes> permute(Vector<A, lanes> from, Index index) {
#ifdef POOLGRAD_AVX2
            __m256i words;
            if constexpr (sizeof(A) == 4) {
                words = bit_copy<__m256i>(index);
            } else {
                const __m256i low = _mm256_slli_epi64(_mm256_cvtepu32_epi64(bit_copy<__m128i>(index)), 1);
                words = _mm256_or_si256(low, _mm256_slli_epi64(_mm256_add_epi64(low, _mm256_set1_epi64x(1)), 32));
            }
            return bit_copy<Vector<A, lanes>>(_mm256_permutevar8x32_epi32(bit_copy<__m256i>(from), words));
#else
            for (int i = 0; i < lanes; ++i) from[i] = from[index[i] & (lanes - 1)];
            return from;
#endif
        }
        const A* row_;
        int registers_;
        Index index_;
        Vector<A, lanes> loaded_[kMost];
    };

  private:
    int32_t *firsts_ = nullptr, *counts_ = nullptr;
    int32_t longest_ = 0;
    int registers_ = 1;
};

}  // namespace poolgrad::POOLGRAD_ISA
