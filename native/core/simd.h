// Vectors of one instruction set: the only place with intrinsics. Included once per translation unit, inside the namespace and
// target of that instruction set (kernels_*.cpp). A scalar is a vector of one lane, so that a row's tail is the same code.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

#define POOLGRAD_INLINE inline __attribute__((always_inline))

#ifdef POOLGRAD_AVX2
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class T, int count>
struct VectorOf {
    typedef T type __attribute__((vector_size(sizeof(T) * count)));
};
template <class T>
struct VectorOf<T, 1> {
    using type = T;
};
template <class T, int count>
using Vector = typename VectorOf<T, count>::type;
// One register full of T.
template <class T>
inline constexpr int kLanes = kVectorBytes / int(sizeof(T));

template <int size>
struct BitsOf;
template <>
struct BitsOf<1> { using type = int8_t; };
template <>
struct BitsOf<2> { using type = int16_t; };
template <>
struct BitsOf<4> { using type = int32_t; };
template <>
struct BitsOf<8> { using type = int64_t; };

template <class To, class From>
POOLGRAD_INLINE To bit_copy(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

// What comparisons of vectors of T give: bool of scalars, a lane mask else.
template <class T, int count>
struct MaskOf {
    using type = Vector<typename BitsOf<sizeof(T)>::type, count>;
};
template <class T>
struct MaskOf<T, 1> {
    using type = bool;
};
template <class T, int count>
using Mask = typename MaskOf<T, count>::type;

template <class T, int count>
POOLGRAD_INLINE Vector<T, count> select(Mask<T, count> mask, Vector<T, count> yes, Vector<T, count> no) {
    return mask ? yes : no;
}

template <class T, int count>
POOLGRAD_INLINE Vector<T, count> spread(T value) {
    if constexpr (count == 1)
        return value;
    else
        return value - Vector<T, count>{};
}

template <class To, class From, int count>
POOLGRAD_INLINE Vector<To, count> convert(Vector<From, count> from) {
    if constexpr (std::is_same_v<To, From>)
        return from;
    else if constexpr (count == 1)
        return static_cast<To>(from);
    else
        return __builtin_convertvector(from, Vector<To, count>);
}

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
    half = select<uint32_t, count>(magnitude > 0x7F800000u, spread<uint32_t, count>(0x7E00u), half);
    return convert<uint16_t, uint32_t, count>(half | sign);
}

template <int count>
POOLGRAD_INLINE Vector<float, count> widen_bfloat(Vector<uint16_t, count> value) {
    return bit_copy<Vector<float, count>>(Vector<uint32_t, count>(convert<uint32_t, uint16_t, count>(value) << 16));
}

template <int count>
POOLGRAD_INLINE Vector<uint16_t, count> narrow_bfloat(Vector<float, count> value) {
    using Words = Vector<uint32_t, count>;
    const Words bits = bit_copy<Words>(value);
    const Words rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const Words quiet = (bits >> 16) | 0x40u;
    return convert<uint16_t, uint32_t, count>(
        select<uint32_t, count>((bits & 0x7FFFFFFFu) > 0x7F800000u, quiet, rounded));
}

// `count` stored values from any address, converted to T.
template <class T, int count, class S>
POOLGRAD_INLINE Vector<T, count> load(const S* from) {
    Vector<std::conditional_t<is_small_float<S>, uint16_t, S>, count> raw;
    __builtin_memcpy(&raw, from, sizeof(raw));
    if constexpr (std::is_same_v<S, Half>) {
#ifdef POOLGRAD_AVX2
        if constexpr (count == 8) return convert<T, float, count>(_mm256_cvtph_ps(bit_copy<__m128i>(raw)));
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
        else
#endif
            return narrow_half<count>(single);
    } else if constexpr (std::is_same_v<S, Bfloat>) {
        return narrow_bfloat<count>(convert<float, T, count>(value));
    } else {
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

}  // namespace poolgrad::POOLGRAD_ISA
