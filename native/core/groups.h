// A row of groups of `stride` units: of group q the first `rest` units are more[q], the others fewer[q].
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class T>
class GroupRow {
    static constexpr int kBytes = sizeof(T) == 2 ? 16 : 32;  // of a register that is permuted
    static constexpr int64_t kCount = kBytes / int64_t(sizeof(T));
    // One register of the row: element i is more[base + i's index], or fewer's. After a period of registers all repeats.
    struct Step {
        alignas(kBytes) std::byte index[kBytes], fewer[kBytes];
        int64_t base;
    };

  public:
    static constexpr int64_t kSlack = kCount;  // elements that may be read behind the rows

    GroupRow() = default;
    GroupRow(Arena& arena, const Rule& rule, int64_t unit)
        : stride_(rule.stride), rest_(rule.window % rule.stride ? rule.window % rule.stride : rule.stride), unit_(unit) {
#ifdef POOLGRAD_AVX2
        const bool zipped = unit == 1 && (stride_ == 2 || stride_ == 4);  // takes fewer instructions
        if (zipped || stride_ > 16 || unit > kCount) return;
        period_ = stride_ * unit / std::gcd(kCount, stride_ * unit);
        steps_ = arena.take<Step>(period_);
#else
        (void)arena;
#endif
    }

    // The row begins with unit `lead` of group 0.
    void prepare(int64_t lead) {
        lead_ = lead;
        fits_ = period_ > 0;
        for (int64_t k = 0; k < period_; ++k) {
            int64_t from[kCount];
            bool fewer[kCount];
            for (int64_t i = 0; i < kCount; ++i) {
                const int64_t unit = lead + (k * kCount + i) / unit_;
                from[i] = unit / stride_ * unit_ + (k * kCount + i) % unit_;
                fewer[i] = unit % stride_ >= rest_;
            }
            Step& step = steps_[k];
            step.base = *std::min_element(from, from + kCount);
            for (int64_t i = 0; i < kCount; ++i) {
                fits_ = fits_ && from[i] - step.base < kCount;
                for (int64_t byte = 0; byte < int64_t(sizeof(T)); ++byte) {
                    const int64_t at = i * int64_t(sizeof(T)) + byte;
                    step.fewer[at] = fewer[i] ? std::byte(0xFF) : std::byte(0);
                    // Bytes of 16 bits are permuted one by one, the others in words of 32 bits.
                    const int64_t source = (from[i] - step.base) * int64_t(sizeof(T)) + byte;
                    step.index[at] = std::byte(sizeof(T) == 2 ? source : at % 4 ? 0 : source / 4);
                }
            }
        }
    }

    // to <- `count` units of the row.
    void lay(T* to, const T* more, const T* fewer, int64_t count) const {
        if (fits_) return rest_ == stride_ ? permute<false>(to, more, fewer, count * unit_) : permute<true>(to, more, fewer, count * unit_);
        if (stride_ <= 16) {
            const T* rows[16];
            for (int64_t r = 0; r < stride_; ++r) rows[r] = r < rest_ ? more : fewer;
            return lay_row(to, rows, lead_, count, stride_, unit_);
        }
        int64_t group = 0;
        for (int64_t begin = lead_; count > 0; begin = 0, ++group) {
            const int64_t end = std::min(stride_, begin + count);
            to = repeat(to, more + group * unit_, std::min(rest_, end) - begin, unit_);
            to = repeat(to, fewer + group * unit_, end - std::max(rest_, begin), unit_);
            count -= end - begin;
        }
    }

  private:
    template <bool both>
    POOLGRAD_NOINLINE void permute(T* to, const T* more, const T* fewer, int64_t length) const {
        const int64_t advance = period_ * kCount / stride_;
        for (int64_t at = 0, k = 0; at < length; at += kCount) {
            const Step& step = steps_[k];
            auto row = permuted(more + step.base, step);
            if constexpr (both) row = blended(row, permuted(fewer + step.base, step), step);
            if (at + kCount <= length)
                __builtin_memcpy(to + at, &row, kBytes);
            else
                std::memcpy(to + at, &row, std::size_t(length - at) * sizeof(T));
            if (++k == period_) k = 0, more += advance, fewer += both ? advance : 0;
        }
    }
    using Raw = Vector<int32_t, kBytes / 4>;
    POOLGRAD_INLINE static Raw permuted(const T* from, const Step& step) {
        Raw raw;
        __builtin_memcpy(&raw, from, kBytes);
#ifdef POOLGRAD_AVX2
        if constexpr (kBytes == 32)
            return bit_copy<Raw>(_mm256_permutevar8x32_epi32(bit_copy<__m256i>(raw), bit_copy<__m256i>(step.index)));
        else
            return bit_copy<Raw>(_mm_shuffle_epi8(bit_copy<__m128i>(raw), bit_copy<__m128i>(step.index)));
#else
        (void)step;
        return raw;
#endif
    }
    POOLGRAD_INLINE static Raw blended(Raw more, Raw fewer, const Step& step) {
        const Raw mask = bit_copy<Raw>(step.fewer);
        return (more & ~mask) | (fewer & mask);
    }

    int64_t stride_ = 1, rest_ = 1, unit_ = 1, lead_ = 0, period_ = 0;
    Step* steps_ = nullptr;
    bool fits_ = false;
};

}  // namespace poolgrad::POOLGRAD_ISA
