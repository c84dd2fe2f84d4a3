// Values on their way from and to memory, a vector at a time: converted from how they are stored and rounded back, stored through the caches
// or past them.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

#ifdef POOLGRAD_AVX2
// Integers of other sizes to and from whole registers. The compilers' own conversions of vectors go lane by lane here (22
// instructions for 8 bytes to 8 words; this is one).
template <class T, int count, class S>
POOLGRAD_INLINE Vector<T, count> widen_integers(const S* from) {
    __m128i raw{};
    __builtin_memcpy(&raw, from, sizeof(S) * count);
    constexpr bool sign = std::is_signed_v<S>;
    if constexpr (sizeof(T) == 2)
        return bit_copy<Vector<T, count>>(sign ? _mm256_cvtepi8_epi16(raw) : _mm256_cvtepu8_epi16(raw));
    else if constexpr (count * sizeof(T) == 16)
        return bit_copy<Vector<T, count>>(sign ? _mm_cvtepi8_epi32(raw) : _mm_cvtepu8_epi32(raw));
    else if constexpr (sizeof(T) == 4)
        return bit_copy<Vector<T, count>>(sizeof(S) == 1 ? (sign ? _mm256_cvtepi8_epi32(raw) : _mm256_cvtepu8_epi32(raw))
                                                         : (sign ? _mm256_cvtepi16_epi32(raw) : _mm256_cvtepu16_epi32(raw)));
    else
        return bit_copy<Vector<T, count>>(sizeof(S) == 1   ? (sign ? _mm256_cvtepi8_epi64(raw) : _mm256_cvtepu8_epi64(raw))
                                          : sizeof(S) == 2 ? (sign ? _mm256_cvtepi16_epi64(raw) : _mm256_cvtepu16_epi64(raw))
                                                           : (sign ? _mm256_cvtepi32_epi64(raw) : _mm256_cvtepu32_epi64(raw)));
}
template <class T, class S, int count>
inline constexpr bool can_widen = std::is_integral_v<S> && std::is_integral_v<T> && (sizeof(S) < sizeof(T)) &&
                                  (count * sizeof(T) == 32 ? sizeof(T) >= 2 : count * sizeof(T) == 16 && sizeof(T) == 4 && sizeof(S) == 1);

// The low bytes of 32-bit lanes.
template <int count>
POOLGRAD_INLINE auto low_bytes(Vector<uint32_t, count> value) {
    const __m128i pick = _mm_set_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 12, 8, 4, 0);
    Vector<uint8_t, count> result;
    __m128i packed;
    if constexpr (count == 4) {
        packed = _mm_shuffle_epi8(bit_copy<__m128i>(value), pick);
    } else {
        const __m256i parts = _mm256_shuffle_epi8(bit_copy<__m256i>(value), _mm256_broadcastsi128_si256(pick));
        packed = _mm_unpacklo_epi32(_mm256_castsi256_si128(parts), _mm256_extracti128_si256(parts, 1));
    }
    __builtin_memcpy(&result, &packed, sizeof(result));
    return result;
}
#endif

// binary16 -> binary32 without F16C. Shifted into place, a half is a float with its exponent 112 too small; one exact product
// mends normals and subnormals alike.
template <int count>
POOLGRAD_INLINE Vector<float, count> widen_half(Vector<uint16_t, count> half) {
    const auto bits = convert<uint32_t, uint16_t, count>(half);
    const Vector<uint32_t, count> magnitude = (bits & 0x7FFFu) << 13, sign = (bits & 0x8000u) << 16;
    const auto scaled = bit_copy<Vector<float, count>>(magnitude) * 0x1p112f;
    const auto finite = bit_copy<Vector<uint32_t, count>>(scaled);
    const Vector<uint32_t, count> special = magnitude | 0x7F800000u;
    return bit_copy<Vector<float, count>>(
        select<uint32_t, count>(magnitude >= (0x7C00u << 13), special, finite) | sign);
}

template <int count>
POOLGRAD_INLINE Vector<uint16_t, count> narrow_half(Vector<float, count> value) {
    using Words = Vector<uint32_t, count>;
    const Words bits = bit_copy<Words>(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    const Words normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    // Below 2^-14 the unit is 2^-24, the unit of floats next to 0.5: adding 0.5 rounds there.
    const Words tiny = bit_copy<Words>(bit_copy<Vector<float, count>>(magnitude) + 0.5f) - 0x3F000000u;
    Words half = select<uint32_t, count>(magnitude < 0x38800000u, tiny, normal);
    half = select<uint32_t, count>(magnitude >= 0x47800000u, spread<uint32_t, count>(0x7C00u), half);
    half = select<uint32_t, count>(magnitude > 0x7F800000u, ((magnitude >> 13) & 0x3FFu) | 0x7E00u, half);
    return convert<uint16_t, uint32_t, count>(half | sign);
}

template <int count>
POOLGRAD_INLINE Vector<float, count> widen_bfloat(Vector<uint16_t, count> value) {
#ifdef POOLGRAD_AVX2
    if constexpr (count == 8) return bit_copy<Vector<float, 8>>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bit_copy<__m128i>(value)), 16));
#endif
    return bit_copy<Vector<float, count>>(Vector<uint32_t, count>(convert<uint32_t, uint16_t, count>(value) << 16));
}

// The upper halves are the values, rounded. NaN needs no care: the lower half of one is zero, whether it came from a bfloat or was made by
// arithmetic, and nothing is carried.
template <int count>
POOLGRAD_INLINE Vector<uint32_t, count> round_bfloat(Vector<float, count> value) {
    const auto bits = bit_copy<Vector<uint32_t, count>>(value);
    return bits + 0x7FFFu + ((bits >> 16) & 1u);
}
// {first[0], second[0], first[1], second[1], ...}
template <int count>
POOLGRAD_INLINE Vector<uint32_t, count> zip_bfloats(Vector<float, count> first, Vector<float, count> second) {
    const Vector<uint32_t, count> low = round_bfloat<count>(first) >> 16, high = round_bfloat<count>(second);
#ifdef POOLGRAD_AVX2
    if constexpr (count == 8) return bit_copy<Vector<uint32_t, 8>>(_mm256_blend_epi16(bit_copy<__m256i>(low), bit_copy<__m256i>(high), 0xAA));
#endif
    return low | (high & 0xFFFF0000u);
}
template <int count>
POOLGRAD_INLINE Vector<uint16_t, count> narrow_bfloat(Vector<float, count> value) {
    const Vector<uint32_t, count> high = round_bfloat<count>(value) >> 16;
#ifdef POOLGRAD_AVX2
    if constexpr (count == 8) {
        const __m256i words = bit_copy<__m256i>(high);
        return bit_copy<Vector<uint16_t, 8>>(_mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    }
#endif
    return convert<uint16_t, uint32_t, count>(high);
}

// `count` stored values from any address, converted to T.
template <class T, int count, class S>
POOLGRAD_INLINE Vector<T, count> load(const S* from) {
#ifdef POOLGRAD_AVX2
    if constexpr (can_widen<T, S, count>) return widen_integers<T, count>(from);
#endif
    Vector<std::conditional_t<is_small_float<S>, uint16_t, S>, count> raw;
    __builtin_memcpy(&raw, from, sizeof(raw));
    if constexpr (std::is_same_v<S, Half>) {
#ifdef POOLGRAD_AVX2
        if constexpr (count == 8) return convert<T, float, count>(_mm256_cvtph_ps(bit_copy<__m128i>(raw)));
        if constexpr (count == 4) return convert<T, float, count>(_mm_cvtph_ps(_mm_cvtsi64_si128(bit_copy<int64_t>(raw))));
#endif
        return convert<T, float, count>(widen_half<count>(raw));
    } else if constexpr (std::is_same_v<S, Bfloat>) {
        return convert<T, float, count>(widen_bfloat<count>(raw));
    } else {
        return convert<T, S, count>(raw);
    }
}

// Values of T rounded to the storage type S (to nearest even), as raw bits ready to be stored.
template <class S, class T, int count>
POOLGRAD_INLINE auto narrow(Vector<T, count> value) {
    if constexpr (std::is_same_v<S, Half>) {
        const auto single = convert<float, T, count>(value);
#ifdef POOLGRAD_AVX2
        if constexpr (count == 8)
            return bit_copy<Vector<uint16_t, 8>>(_mm256_cvtps_ph(single, _MM_FROUND_TO_NEAREST_INT));
        else if constexpr (count == 4)
            return bit_copy<Vector<uint16_t, 4>>(_mm_cvtsi128_si64(_mm_cvtps_ph(single, _MM_FROUND_TO_NEAREST_INT)));
        else
#endif
            return narrow_half<count>(single);
    } else if constexpr (std::is_same_v<S, Bfloat>) {
        return narrow_bfloat<count>(convert<float, T, count>(value));
    } else {
#ifdef POOLGRAD_AVX2
        if constexpr (std::is_integral_v<S> && std::is_integral_v<T> && sizeof(S) == 1 && sizeof(T) == 4 && (count == 4 || count == 8))
            return bit_copy<Vector<S, count>>(low_bytes<count>(bit_copy<Vector<uint32_t, count>>(value)));
        else
#endif
            return convert<S, T, count>(value);
    }
}

template <class T, int count, class S>
POOLGRAD_INLINE void store(S* to, Vector<T, count> value) {
    const auto raw = narrow<S, T, count>(value);
    __builtin_memcpy(to, &raw, sizeof(raw));
}

// The same past the caches, for results larger than these; `to` must be 16-byte aligned. Vectors of other sizes than whole
// registers are stored as usual.
template <class T, int count, class S>
POOLGRAD_INLINE void stream(S* to, Vector<T, count> value) {
    const auto raw = narrow<S, T, count>(value);
#if defined(__x86_64__)
    if constexpr (sizeof(raw) % 16 == 0) {
        __m128i pieces[sizeof(raw) / 16];
        __builtin_memcpy(pieces, &raw, sizeof(raw));
        for (std::size_t i = 0; i < sizeof(raw) / 16; ++i)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, pieces[i]);
        return;
    }
#endif
    __builtin_memcpy(to, &raw, sizeof(raw));
}

// Orders streamed stores before whatever tells another thread that they are done.
POOLGRAD_INLINE void stream_fence() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

// Copies what does not overlap, in registers that begin at multiples of their size: the C library's own way of copying some KiB is slow on
// CPUs where it is one instruction.
template <class T>
POOLGRAD_NOINLINE void copy_row(T* to, const T* from, int64_t count) {
    using Raw = typename BitsOf<sizeof(T)>::type;
    constexpr int64_t lanes = kLanes<T>;
    const auto copy = [=](int64_t at) POOLGRAD_LAMBDA {
        store<Raw, int(lanes)>(reinterpret_cast<Raw*>(to + at), load<Raw, int(lanes)>(reinterpret_cast<const Raw*>(from + at)));
    };
    if (count < lanes) {
        std::memcpy(to, from, std::size_t(count) * sizeof(T));
        return;
    }
    copy(0);
    int64_t at = lanes - int64_t(reinterpret_cast<std::uintptr_t>(to) / sizeof(T)) % lanes;
    for (; at + 4 * lanes <= count; at += 4 * lanes) copy(at), copy(at + lanes), copy(at + 2 * lanes), copy(at + 3 * lanes);
    for (; at + lanes <= count; at += lanes) copy(at);
    copy(count - lanes);
}

// Copies past the caches, whole lines; without `all` an incomplete last line is left out. Returns how many were copied.
template <class T>
POOLGRAD_NOINLINE int64_t stream_copy(T* to, const T* from, int64_t count, bool all) {
    constexpr int64_t line = 64 / int64_t(sizeof(T));
    using Raw = typename BitsOf<sizeof(T)>::type;
    int64_t done = 0;
    const auto copy_until = [&](int64_t end) {  // by 16 bytes where the destination is so aligned, as most are
        constexpr int64_t piece = 16 / int64_t(sizeof(T));
        if (reinterpret_cast<std::uintptr_t>(to + done) % 16 == 0)
            for (; done + piece <= end; done += piece) std::memcpy(to + done, from + done, 16);
        for (; done < end; ++done) to[done] = from[done];
    };
    const int64_t over = int64_t(reinterpret_cast<std::uintptr_t>(to) % 64 / sizeof(T));
    copy_until(std::min(count, over ? line - over : 0));
    for (; done + line <= count; done += line)
        for (int64_t i = 0; i < line; i += kLanes<T>)
            stream<Raw, kLanes<T>>(reinterpret_cast<Raw*>(to + done + i),
                                   load<Raw, kLanes<T>>(reinterpret_cast<const Raw*>(from + done + i)));
    if (all) copy_until(count);
    return done;
}

// Several neighbouring registers. (An array of them would be kept in memory.)
template <class A, int many>
struct Registers {
    static constexpr int lanes = kLanes<A>;
    Vector<A, lanes> first;
    Registers<A, many - 1> others;

    static POOLGRAD_INLINE Registers all(A value) { return {spread<A, lanes>(value), Registers<A, many - 1>::all(value)}; }
    template <class S>
    static POOLGRAD_INLINE Registers read(const S* from) {
        return {load<A, lanes>(from), Registers<A, many - 1>::read(from + lanes)};
    }
    template <class S>
    POOLGRAD_INLINE void write(S* to) const {
        store<A, lanes>(to, first), others.write(to + lanes);
    }
    POOLGRAD_INLINE Registers operator+(const Registers& more) const { return {first + more.first, others + more.others}; }
    POOLGRAD_INLINE Registers operator/(A by) const { return {first / spread<A, lanes>(by), others / by}; }
    POOLGRAD_INLINE Registers operator*(A by) const { return {first * spread<A, lanes>(by), others * by}; }
};
template <class A>
struct Registers<A, 0> {
    static POOLGRAD_INLINE Registers all(A) { return {}; }
    static POOLGRAD_INLINE Registers read(const void*) { return {}; }
    POOLGRAD_INLINE void write(void*) const {}
    POOLGRAD_INLINE Registers operator+(const Registers&) const { return {}; }
    POOLGRAD_INLINE Registers operator/(A) const { return {}; }
    POOLGRAD_INLINE Registers operator*(A) const { return {}; }
};

}  // namespace poolgrad::POOLGRAD_ISA
