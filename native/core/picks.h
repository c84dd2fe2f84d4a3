// Terms of sums and maxima along an irregular axis, picked from a row for a register of destinations at a time.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Where each destination's terms begin in a row, and how many it has. What the terms of half a register's destinations span is loaded
// once and permuted, where it fits into a register; else the same for all of them and four registers (gathering instructions took five
// times as long); else lanes are read one by one.
template <class A>
class Picks {
    static constexpr int kMost = 4;
    static constexpr int lanes = kLanes<A>, half = lanes / 2;
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
        registers_ = 1, halves_ = true;
        for (int64_t at = 0; at < count; at += lanes)
            for (int i = 0; i < lanes; ++i) {
                const int32_t last = firsts_[at + i] + counts_[at + i];
                registers_ = std::max(registers_, (last - firsts_[at] + lanes - 1) / lanes);
                halves_ = halves_ && last - firsts_[at + i / half * half] <= lanes;
            }
#ifndef POOLGRAD_AVX2
        registers_ = kMost + 1, halves_ = false;
#endif
    }
    int32_t longest() const { return longest_; }
    // body(type): Picks::Terms<type::value> are the terms to use.
    template <class Body>
    POOLGRAD_INLINE void visit(const Body& body) const {
        if (halves_)
            body(std::true_type());
        else
            body(std::false_type());
    }

    // The terms of the destinations from `at` on.
    template <bool halves>
    class Terms {
      public:
        POOLGRAD_INLINE Terms(const Picks& picks, const A* row, int64_t at) : count(load<int32_t, lanes>(picks.counts_ + at)) {
            const int32_t* firsts = picks.firsts_ + at;
            row_ = row + firsts[0];
            Index starts = spread<int32_t, lanes>(firsts[0]);
            if constexpr (halves) {
                starts = select<int32_t, lanes>(upper<int32_t>(), spread<int32_t, lanes>(firsts[half]), starts);
                loaded_[0] = load<A, lanes>(row_), loaded_[1] = load<A, lanes>(row + firsts[half]);
            } else {
                registers_ = picks.registers_;
                for (int r = 0; r < kMost && registers_ <= kMost; ++r)
                    loaded_[r] = r < registers_ ? load<A, lanes>(row_ + r * lanes) : Vector<A, lanes>{};
            }
            index_ = load<int32_t, lanes>(firsts) - starts;
            words_ = words(index_);
        }
        // Term t of each; anything where there are fewer.
        POOLGRAD_INLINE Vector<A, lanes> term(int32_t t) const {
            const Words at = words_ + int32_t(sizeof(A) / 4) * t;
            if constexpr (halves) {
                return select<A, lanes>(upper<A>(), permute(loaded_[1], at), permute(loaded_[0], at));
            } else {
                const Index index = index_ + t;
                if (registers_ > kMost) {
                    Vector<A, lanes> result{};
                    for (int i = 0; i < lanes; ++i)
                        if (t < count[i]) result[i] = row_[index[i]];
                    return result;
                }
                auto result = permute(loaded_[0], at);
                for (int r = 1; r < kMost; ++r)
                    if (r < registers_) result = select<A, lanes>(widened(index >= r * lanes), permute(loaded_[r], at), result);
                return result;
            }
        }
        // Whether there is a term t.
        POOLGRAD_INLINE Mask<A, lanes> has(int32_t t) const { return widened(count > t); }

        const Index count;

      private:
        using Words = Vector<int32_t, kVectorBytes / 4>;
        static POOLGRAD_INLINE Mask<A, lanes> widened(Index mask) {
            return convert<typename BitsOf<sizeof(A)>::type, int32_t, lanes>(mask);
        }
        template <class T>
        static POOLGRAD_INLINE Mask<T, lanes> upper() {
            Mask<T, lanes> mask{};
            for (int i = half; i < lanes; ++i) mask[i] = -1;
            return mask;
        }
        // Where the 32-bit words of lanes with these indices lie.
        static POOLGRAD_INLINE Words words(Index index) {
            if constexpr (sizeof(A) == 4) {
                return index;
            } else {
#ifdef POOLGRAD_AVX2
                const __m256i low = _mm256_slli_epi64(_mm256_cvtepu32_epi64(bit_copy<__m128i>(index)), 1);
                return bit_copy<Words>(_mm256_or_si256(low, _mm256_slli_epi64(_mm256_add_epi64(low, _mm256_set1_epi64x(1)), 32)));
#else
                return Words{};
#endif
            }
        }
        // Lanes of a register by the last bits of their words.
        static POOLGRAD_INLINE Vector<A, lanes> permute(Vector<A, lanes> from, Words at) {
#ifdef POOLGRAD_AVX2
            return bit_copy<Vector<A, lanes>>(_mm256_permutevar8x32_epi32(bit_copy<__m256i>(from), bit_copy<__m256i>(at)));
#else
            return from + A(0 * at[0]);  // not used: lanes are read one by one
#endif
        }
        const A* row_;
        int registers_ = 0;
        Index index_;
        Words words_;
        Vector<A, lanes> loaded_[halves ? 2 : kMost];
    };

  private:
    int32_t *firsts_ = nullptr, *counts_ = nullptr;
    int32_t longest_ = 0;
    int registers_ = 1;
    bool halves_ = false;  // what the terms of half a register's destinations span fits into one
};

}  // namespace poolgrad::POOLGRAD_ISA
