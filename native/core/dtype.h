// Storage types. The one place where a runtime dtype becomes a C++ type is visit().
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>

namespace poolgrad {

// The numbers are part of the binding's contract, and an unsigned integer follows the signed one of its size.
enum class Kind : int {
    float16, bfloat16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, uint64
};

struct Half {
    uint16_t bits;
};
struct Bfloat {
    uint16_t bits;
};

template <class T>
struct Type {
    using type = T;
};

// Calls function(Type<T>()) with the storage type of the kind.
template <class Function>
auto visit(Kind kind, Function&& function) {
#if defined(POOLGRAD_FLOAT32_ONLY)  // for a program that uses no other type: a tenth to compile
    if (kind == Kind::float32) return function(Type<float>());
    throw std::invalid_argument("built for float32 only");
#else
    switch (kind) {
        case Kind::float16: return function(Type<Half>());
        case Kind::bfloat16: return function(Type<Bfloat>());
        case Kind::float32: return function(Type<float>());
        case Kind::float64: return function(Type<double>());
        case Kind::int8: return function(Type<int8_t>());
        case Kind::uint8: return function(Type<uint8_t>());
        case Kind::int16: return function(Type<int16_t>());
        case Kind::uint16: return function(Type<uint16_t>());
        case Kind::int32: return function(Type<int32_t>());
        case Kind::uint32: return function(Type<uint32_t>());
        case Kind::int64: return function(Type<int64_t>());
        case Kind::uint64: return function(Type<uint64_t>());
    }
    throw std::invalid_argument("kind must be in [0, 12)");
#endif
}

inline int64_t item_size(Kind kind) {
    return visit(kind, [](auto type) { return int64_t(sizeof(typename decltype(type)::type)); });
}

template <class T>
inline constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>;
template <class T>
inline constexpr bool is_float = is_small_float<T> || std::is_floating_point_v<T>;

// What sums are kept in: float32 for the small floats, the type itself else; integers wrap.
template <class T, bool small = is_small_float<T>, bool integer = std::is_integral_v<T>>
struct AccumulatorOf {
    using type = T;
};
template <class T>
struct AccumulatorOf<T, true, false> {
    using type = float;
};
template <class T>
struct AccumulatorOf<T, false, true> {
    using type = std::make_unsigned_t<T>;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

}  // namespace poolgrad
