// Planes side by side: rows of several planes become one row whose inner run is the planes.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Planes that are laid side by side: two registers full.
template <class A>
inline constexpr int kPlanes = 2 * kLanes<A>;

// Elements of T in 128 bits, the part of a register within which transposing is cheap, and such parts in a register.
template <class A>
inline constexpr int kPart = 16 / int(sizeof(A));
template <class A>
inline constexpr int kParts = kLanes<A> / kPart<A>;

// Within each part, of its first half (offset 0) or of its second: {a0, b0, a1, b1, ...}.
template <int offset, class V, std::size_t... i>
POOLGRAD_INLINE V mix(V a, V b, std::index_sequence<i...>) {
    constexpr std::size_t count = sizeof...(i), part = 16 / sizeof(V{}[0]);
    return __builtin_shufflevector(a, b, int(i / part * part + i % part / 2 + offset + (i % 2) * count)...);
}

// Transposes the squares of kPart x kPart elements in the parts of kPart registers.
template <class A>
POOLGRAD_INLINE void transpose_parts(Vector<A, kLanes<A>>* v) {
    constexpr int part = kPart<A>;
    constexpr std::make_index_sequence<std::size_t(kLanes<A>)> all;
    Vector<A, kLanes<A>> mixed[part];
    for (int step = 1; step < part; step *= 2) {
        for (int i = 0; i < part / 2; ++i) {
            mixed[2 * i] = mix<0>(v[i], v[i + part / 2], all);
            mixed[2 * i + 1] = mix<part / 2>(v[i], v[i + part / 2], all);
        }
        for (int i = 0; i < part; ++i) v[i] = mixed[i];
    }
}

// A register from its parts and back; through memory the parts would wait for each other.
template <class A, std::size_t... i>
POOLGRAD_INLINE Vector<A, kLanes<A>> join_parts(const Vector<A, kPart<A>>* parts, std::index_sequence<i...>) {
    return __builtin_shufflevector(parts[0], parts[kParts<A> - 1], int(i)...);
}
template <class A, int which, std::size_t... i>
POOLGRAD_INLINE Vector<A, kPart<A>> part_of(Vector<A, kLanes<A>> whole, std::index_sequence<i...>) {
    return __builtin_shufflevector(whole, whole, int(which * kPart<A> + i)...);
}

// v[e][p] = planes(p)[e] for the elements of a part and the planes of a register.
template <class A, class Planes>
POOLGRAD_INLINE void load_square(Vector<A, kLanes<A>>* v, const Planes& planes) {
    constexpr int part = kPart<A>, parts = kParts<A>;
    for (int e = 0; e < part; ++e) {
        Vector<A, part> pieces[parts];
        for (int p = 0; p < parts; ++p) pieces[p] = load<A, part>(planes(p * part + e));
        v[e] = join_parts<A>(pieces, std::make_index_sequence<std::size_t(kLanes<A>)>());
    }
    transpose_parts<A>(v);
}
template <class A, class S>
POOLGRAD_INLINE void load_square(Vector<A, kLanes<A>>* v, const S* const* planes, int64_t i) {
    load_square<A>(v, [=](int p) POOLGRAD_LAMBDA { return planes[p] + i; });
}

// to[i][p] = planes[p][i] for i < count and all kPlanes planes. Eight planes at a time: sixteen that lie a power of two apart would fall
// into one set of the first-level cache, which holds twelve.
template <class A, class S>
POOLGRAD_NOINLINE void load_planes(A* to, const S* const* planes, int64_t count) {
    constexpr int part = kPart<A>;
    for (int half = 0; half < 2; ++half, to += kLanes<A>, planes += kLanes<A>) {
        const auto square = [&](int64_t i) POOLGRAD_LAMBDA {
            Vector<A, kLanes<A>> v[part];
            load_square<A>(v, planes, i);
            for (int e = 0; e < part; ++e) store<A, kLanes<A>>(to + (i + e) * kPlanes<A>, v[e]);
        };
        int64_t i = 0;
        for (; i + part <= count; i += part) square(i);
        if (i < count && count >= part) square(count - part), i = count;
        for (; i < count; ++i)
            for (int p = 0; p < kLanes<A>; ++p) to[i * kPlanes<A> + p] = load<A, 1>(planes[p] + i);
    }
}

// sums[p] <- the sum of the `count` elements of planes[p], in their order; or is added to what is there.
template <class A, class S>
POOLGRAD_NOINLINE void sum_along_planes(A* sums, const S* const* planes, int64_t count, bool add) {
    constexpr int part = kPart<A>, lanes = kLanes<A>;
    const S* const* others = planes + lanes;
    Vector<A, lanes> sum[2] = {spread<A, lanes>(A(-0.0)), spread<A, lanes>(A(-0.0))};
    int64_t i = 0;
    for (; i + part <= count; i += part) {
        __builtin_prefetch(planes[kPlanes<A> - 1] + count + i * 16 / part);  // what comes next: the CPU does not foresee so many rows
        Vector<A, lanes> v[part], w[part];
        load_square<A>(v, planes, i), load_square<A>(w, others, i);
        for (int e = 0; e < part; ++e) sum[0] = sum[0] + v[e], sum[1] = sum[1] + w[e];
    }
    if (i < count && count >= part) {  // of a square that overlaps the one before
        Vector<A, lanes> v[part], w[part];
        load_square<A>(v, planes, count - part), load_square<A>(w, others, count - part);
        for (int e = 1; e < part; ++e)
            if (e >= part - (count - i)) sum[0] = sum[0] + v[e], sum[1] = sum[1] + w[e];
        i = count;
    }
    for (; i < count; ++i) {
        A last[kPlanes<A>];
        for (int p = 0; p < kPlanes<A>; ++p) last[p] = load<A, 1>(planes[p] + i);
        for (int half = 0; half < 2; ++half) sum[half] = sum[half] + load<A, lanes>(last + half * lanes);
    }
    for (int half = 0; half < 2; ++half, sums += lanes) store<A, lanes>(sums, add ? load<A, lanes>(sums) + sum[half] : sum[half]);
}

// planes[p][i] = from[i][p], the way back.
template <class A, class T>
POOLGRAD_NOINLINE void store_planes(T* const* planes, const A* from, int64_t count) {
    constexpr int part = kPart<A>, parts = kParts<A>;
    static_assert(parts <= 2);
    for (int half = 0; half < 2; ++half, from += kLanes<A>, planes += kLanes<A>) {
        const auto square = [&](int64_t i) POOLGRAD_LAMBDA {
            Vector<A, kLanes<A>> v[part];
            for (int e = 0; e < part; ++e) v[e] = load<A, kLanes<A>>(from + (i + e) * kPlanes<A>);
            transpose_parts<A>(v);
            constexpr std::make_index_sequence<std::size_t(part)> all;
            for (int e = 0; e < part; ++e) {
                store<A, part>(planes[e] + i, part_of<A, 0>(v[e], all));
                if constexpr (parts == 2) store<A, part>(planes[part + e] + i, part_of<A, 1>(v[e], all));
            }
        };
        int64_t i = 0;
        for (; i + part <= count; i += part) square(i);
        if (i < count && count >= part) square(count - part), i = count;
        for (; i < count; ++i)
            for (int p = 0; p < kLanes<A>; ++p) store<A, 1>(planes[p] + i, from[i * kPlanes<A> + p]);
    }
}

}  // namespace poolgrad::POOLGRAD_ISA
