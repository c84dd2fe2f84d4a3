// Terms of sums and maxima along an irregular axis, picked from a row for a register of destinations at a time.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// How terms are picked: loaded at once and permuted where those of a register's destinations, or of half a register's, lie within a register;
// else each is loaded by itself. (Gathering instructions took five times as long.)
enum class Pick { whole, halves, each };
template <Pick how>
using Picking = std::integral_constant<Pick, how>;

// Where each destination's terms begin in a row, and how many it has; they lie `step` apart.
template <class A>
class Picks {
    static constexpr int lanes = kLanes<A>, half = lanes / 2;
    using Index = Vector<int32_t, lanes>;
    using Words = Vector<int32_t, kVectorBytes / 4>;

  public:
    static constexpr int64_t kMost = 64;  // terms of a destination
    // Elements that may be read behind a row.
    static constexpr int64_t slack(int64_t most, int64_t step) { return most * step + 2 * lanes; }
    static constexpr int64_t kSlack = kMost + 2 * lanes;

    Picks() = default;
    Picks(Arena& arena, int64_t most)
        : firsts_(arena.take<int32_t>(most + lanes)), counts_(arena.take<int32_t>(most + lanes)), words_(arena.take<Words>(most / lanes + 1)),
          bases_(arena.take<std::array<int32_t, 2>>(most / lanes + 1)) {}

    // range(i): where the terms of destination i < count begin, and as long as there are of them. Empty ones have no terms.
    template <class Ranges>
    void prepare(int64_t count, int64_t step, const Ranges& range) {
        int32_t first = 0;
        step_ = step, longest_ = 0, shortest_ = kMost;
        for (int64_t i = 0; i < count + lanes; ++i) {
            const Range terms = i < count ? range(i) : Range{0, 0};
            counts_[i] = int32_t(std::max<int64_t>(0, terms.size()));
            if (counts_[i]) first = int32_t(terms.first);
            firsts_[i] = first;
            longest_ = std::max(longest_, counts_[i]);
            if (i < count) shortest_ = std::min(shortest_, counts_[i]);
        }
        how_ = kVectorBytes == 32 ? fitting(count) : Pick::each;
        const int part = how_ == Pick::whole ? lanes : half;
        for (int64_t at = 0; at < count; at += lanes)
            for (int i = 0; i < lanes; ++i) {
                int32_t& base = bases_[at / lanes][std::size_t(i / half)];
                if (i % part == 0 || i == half) base = least(at + i / part * part, part);
                const int32_t offset = firsts_[at + i] - base;
                for (int word = 0; word < int(sizeof(A) / 4); ++word)
                    words_[at / lanes][i * int(sizeof(A) / 4) + word] = offset * int32_t(sizeof(A) / 4) + word;
            }
    }
    // The most terms of any, and the fewest.
    int32_t longest() const { return longest_; }
    int32_t shortest() const { return shortest_; }
    // body(type): Picks::Terms<type::value> are the terms to use.
    template <class Body>
    POOLGRAD_INLINE void visit(const Body& body) const {
        switch (how_) {
            case Pick::whole: return body(Picking<Pick::whole>());
            case Pick::halves: return body(Picking<Pick::halves>());
            default: return body(Picking<Pick::each>());
        }
    }

    // The terms of the destinations from `at` on, a multiple of a register's.
    template <Pick how>
    class Terms {
      public:
        POOLGRAD_INLINE Terms(const Picks& picks, const A* row, int64_t at)
            : count(load<int32_t, lanes>(picks.counts_ + at)), low_(row + picks.bases_[at / lanes][0]), high_(row + picks.bases_[at / lanes][1]),
              row_(row), firsts_(picks.firsts_ + at), step_(picks.step_), words_(picks.words_[at / lanes]) {}
        // Term t of each; anything where there are fewer.
        POOLGRAD_INLINE Vector<A, lanes> term(int32_t t) const {
            if constexpr (how == Pick::whole) {
                return permute(load<A, lanes>(low_ + t * step_));
            } else if constexpr (how == Pick::halves) {
                const auto low = permute(load<A, lanes>(low_ + t * step_)), high = permute(load<A, lanes>(high_ + t * step_));
                return select<A, lanes>(upper(), high, low);
            } else {
                return each(t * step_, std::make_index_sequence<std::size_t(lanes)>());
            }
        }
        // Whether there is a term t.
        POOLGRAD_INLINE Mask<A, lanes> has(int32_t t) const {
            return convert<typename BitsOf<sizeof(A)>::type, int32_t, lanes>(Index(count > t));
        }

        const Index count;

      private:
        static POOLGRAD_INLINE Mask<A, lanes> upper() {
            Mask<A, lanes> mask{};
            for (int i = half; i < lanes; ++i) mask[i] = -1;
            return mask;
        }
        template <std::size_t... i>
        POOLGRAD_INLINE Vector<A, lanes> each(int64_t offset, std::index_sequence<i...>) const {
            return Vector<A, lanes>{row_[firsts_[i] + offset]...};
        }
        POOLGRAD_INLINE Vector<A, lanes> permute(Vector<A, lanes> from) const {
#ifdef POOLGRAD_AVX2
            return bit_copy<Vector<A, lanes>>(_mm256_permutevar8x32_epi32(bit_copy<__m256i>(from), bit_copy<__m256i>(words_)));
#else
            return from;  // not used
#endif
        }
        const A *low_, *high_, *row_;
        const int32_t* firsts_;
        const int64_t step_;
        const Words words_;
    };

  private:
    int32_t least(int64_t at, int part) const { return *std::min_element(firsts_ + at, firsts_ + at + part); }
    // The quickest way for all.
    Pick fitting(int64_t count) const {
        const auto fits = [&](int part) {
            bool result = true;
            for (int64_t at = 0; result && at < count; at += part)
                result = *std::max_element(firsts_ + at, firsts_ + at + part) - least(at, part) < lanes;
            return result;
        };
        return fits(lanes) ? Pick::whole : fits(half) ? Pick::halves : Pick::each;
    }

    int32_t *firsts_ = nullptr, *counts_ = nullptr;
    Words* words_ = nullptr;  // where the 32-bit words of each lane's terms lie, from the first term of the lanes or of half of them on
    std::array<int32_t, 2>* bases_ = nullptr;
    int64_t step_ = 1;
    int32_t longest_ = 0, shortest_ = 0;
    Pick how_ = Pick::each;
};

}  // namespace poolgrad::POOLGRAD_ISA
