// Planes side by side: rows of several planes become one row whose inner run is the planes, so that short rows and irregular windows of
// channels-first arrays run as fast as channels-last ones.
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

template <int offset, class V, std::size_t... i>
POOLGRAD_INLINE V mix(V a, V b, std::index_sequence<i...>) {
    // Within each part of 4: {a0, b0, a1, b1} (offset 0) or {a2, b2, a3, b3} (offset 2); of 2: {a0, b0} or {a1, b1}.
    constexpr std::size_t count = sizeof...(i), part = 16 / sizeof(V{}[0]);
    return __builtin_shufflevector(a, b, int(i / part * part + i % part / 2 + offset + (i % 2) * count)...);
}
template <int offset, class V, std::size_t... i>
POOLGRAD_INLINE V mix_pairs(V a, V b, std::index_sequence<i...>) {
    // {a0, a1, b0, b1} (offset 0) or {a2, a3, b2, b3} (offset 2) within each part of 4.
    constexpr std::size_t count = sizeof...(i);
    return __builtin_shufflevector(a, b, int(i / 4 * 4 + i % 2 + offset + (i % 4 / 2) * count)...);
}

// Transposes the squares of kPart x kPart elements in the parts of kPart registers.
template <class A>
POOLGRAD_INLINE void transpose_parts(Vector<A, kLanes<A>>* v) {
    constexpr std::make_index_sequence<std::size_t(kLanes<A>)> all;
    if constexpr (kPart<A> == 2) {
        const auto low = mix<0>(v[0], v[1], all), high = mix<1>(v[0], v[1], all);
        v[0] = low, v[1] = high;
    } else {
        const auto a = mix<0>(v[0], v[1], all), b = mix<2>(v[0], v[1], all), c = mix<0>(v[2], v[3], all), d = mix<2>(v[2], v[3], all);
        v[0] = mix_pairs<0>(a, c, all), v[1] = mix_pairs<2>(a, c, all), v[2] = mix_pairs<0>(b, d, all), v[3] = mix_pairs<2>(b, d, all);
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

// v[e][p] = planes[p][i + e] for the elements of a part and the planes of a register.
template <class A, class S>
POOLGRAD_INLINE void load_square(Vector<A, kLanes<A>>* v, const S* const* planes, int64_t i) {
    constexpr int part = kPart<A>, parts = kParts<A>;
    for (int e = 0; e < part; ++e) {
        Vector<A, part> pieces[parts];
        for (int p = 0; p < parts; ++p) pieces[p] = load<A, part>(planes[p * part + e] + i);
        v[e] = join_parts<A>(pieces, std::make_index_sequence<std::size_t(kLanes<A>)>());
    }
    transpose_parts<A>(v);
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

// Result rows of planes side by side, gathered and sent to their planes in longer pieces.
template <class A, class T>
class PlaneWriter {
  public:
    // `joined` has room for capacity * kPlanes values; so has `staging`, null when results need not go past the caches.
    PlaneWriter(A* joined, T* staging, T* spare, int64_t capacity) : joined_(joined), staging_(staging), spare_(spare), capacity_(capacity) {}

    // The planes from now on: `count` of them, the first at `first`, the next `pitch` further each.
    void planes(T* first, int64_t pitch, int count) {
        flush();
        destination_ = first, pitch_ = pitch, count_ = count;
    }
    // Where to put `length` <= capacity results of each plane, from its index `at` on, before the next call.
    A* row(int64_t at, int64_t length) {
        if (at != at_ + filled_ || filled_ + length > capacity_) flush(), at_ = at;
        filled_ += length;
        return joined_ + (filled_ - length) * kPlanes<A>;
    }
    void flush() {
        if (!filled_) return;
        T* to[kPlanes<A>];
        for (int p = 0; p < kPlanes<A>; ++p)
            to[p] = p >= count_ ? spare_ : staging_ ? staging_ + p * capacity_ : destination_ + p * pitch_ + at_;
        if (!staging_)
            for (int p = 0; p < count_; ++p)
                for (int64_t i = 0; i < filled_; i += 64 / int64_t(sizeof(T))) __builtin_prefetch(to[p] + i, 1);
        store_planes<A, T>(to, joined_, filled_);
        if (staging_) {
            for (int p = 0; p < count_; ++p) stream_copy(destination_ + p * pitch_ + at_, to[p], filled_, true);
            stream_fence();
        }
        filled_ = 0;
    }

  private:
    A* joined_;
    T *staging_, *spare_, *destination_ = nullptr;
    int64_t capacity_, pitch_ = 0, at_ = 0, filled_ = 0;
    int count_ = 0;
};

}  // namespace poolgrad::POOLGRAD_ISA
