// Vectors of one instruction set, and what is done with them lane by lane. Included once per translation unit, inside the namespace and target of
// that instruction set (kernels.cpp). A scalar is a vector of one lane, so that a row's tail is the same code.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

#define POOLGRAD_INLINE inline __attribute__((always_inline))
#define POOLGRAD_NOINLINE __attribute__((noinline))
#define POOLGRAD_LAMBDA __attribute__((always_inline))

template <int value>
using Constant = std::integral_constant<int, value>;

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

// x where it is larger, else best: the first of equals, and best where either is NaN. For floats that is one instruction.
template <class T, int count>
POOLGRAD_INLINE Vector<T, count> larger(Vector<T, count> x, Vector<T, count> best) {
#if defined(POOLGRAD_AVX2)
    if constexpr (std::is_same_v<T, float> && count == 8) return bit_copy<Vector<T, count>>(_mm256_max_ps(bit_copy<__m256>(x), bit_copy<__m256>(best)));
    if constexpr (std::is_same_v<T, double> && count == 4) return bit_copy<Vector<T, count>>(_mm256_max_pd(bit_copy<__m256d>(x), bit_copy<__m256d>(best)));
#elif defined(__x86_64__)
    if constexpr (std::is_same_v<T, float> && count == 4) return bit_copy<Vector<T, count>>(_mm_max_ps(bit_copy<__m128>(x), bit_copy<__m128>(best)));
    if constexpr (std::is_same_v<T, double> && count == 2) return bit_copy<Vector<T, count>>(_mm_max_pd(bit_copy<__m128d>(x), bit_copy<__m128d>(best)));
#endif
    return x > best ? x : best;
}

// Where either is NaN.
template <class T, int count>
POOLGRAD_INLINE Mask<T, count> unordered(Vector<T, count> x, Vector<T, count> y) {
#if defined(POOLGRAD_AVX2)
    if constexpr (std::is_same_v<T, float> && count == 8)
        return bit_copy<Mask<T, count>>(_mm256_cmp_ps(bit_copy<__m256>(x), bit_copy<__m256>(y), _CMP_UNORD_Q));
    if constexpr (std::is_same_v<T, double> && count == 4)
        return bit_copy<Mask<T, count>>(_mm256_cmp_pd(bit_copy<__m256d>(x), bit_copy<__m256d>(y), _CMP_UNORD_Q));
#elif defined(__x86_64__)
    if constexpr (std::is_same_v<T, float> && count == 4) return bit_copy<Mask<T, count>>(_mm_cmpunord_ps(bit_copy<__m128>(x), bit_copy<__m128>(y)));
    if constexpr (std::is_same_v<T, double> && count == 2) return bit_copy<Mask<T, count>>(_mm_cmpunord_pd(bit_copy<__m128d>(x), bit_copy<__m128d>(y)));
#endif
    return (x != x) | (y != y);
}

// Whether any lane of a whole register's mask is set.
template <class T>
POOLGRAD_INLINE bool any(Mask<T, kLanes<T>> mask) {
#ifdef POOLGRAD_AVX2
    return !_mm256_testz_si256(bit_copy<__m256i>(mask), bit_copy<__m256i>(mask));
#else
    bool result = false;
    for (int i = 0; i < kLanes<T>; ++i) result |= mask[i] != 0;
    return result;
#endif
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

// Calls body(Constant<lanes>, index) over a row: whole registers, the last overlapping the one before; rows shorter than a register lane
// by lane. The body must not mind doing an element twice.
template <class T, class Body>
POOLGRAD_INLINE void each_column(int64_t length, const Body& body) {
    constexpr int lanes = kLanes<T>;
    int64_t at = 0;
    for (; at + lanes <= length; at += lanes) body(Constant<lanes>(), at);
    if (at < length && length >= lanes) return body(Constant<lanes>(), length - lanes);
    for (; at < length; ++at) body(Constant<1>(), at);
}

}  // namespace poolgrad::POOLGRAD_ISA
