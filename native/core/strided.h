// Moving rows: strided in and out, and results on their way to memory.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Rows at equal distances (they may overlap), and rows anywhere.
template <class R>
struct PitchRows {
    static constexpr bool far = false;
    const R* base;
    int64_t pitch;
    POOLGRAD_INLINE const R* operator()(int64_t i) const { return base + i * pitch; }
};
// Those of an array that may come from memory.
template <class R>
struct FarRows : PitchRows<R> {
    static constexpr bool far = true;
};
template <class R>
struct PointerRows {
    static constexpr bool far = false;
    const R* const* rows;
    POOLGRAD_INLINE const R* operator()(int64_t i) const { return rows[i]; }
};

// Brings a run of memory into the second cache, all at once: of rows that are read by turns, several in a page, the CPU foresees none.
template <class T>
POOLGRAD_INLINE void fetch(const T* from, int64_t count) {
    for (int64_t i = 0; i < count; i += 64 / int64_t(sizeof(T))) __builtin_prefetch(from + i, 0, 2);
}

// The same of what lies a page further on than a run: where the CPU foresees a run, it does so up to the end of its page.
template <class T>
POOLGRAD_INLINE void fetch_next_page(const T* from, int64_t count) {
    fetch(from + 4096 / int64_t(sizeof(T)), count);
}

// The same two pages on: of short rows, many of which lie in a page. Asked for with every register, a page on, these took up to twice as long as
// not at all on a CPU that foresees such rows.
template <class T>
POOLGRAD_INLINE void fetch_later(const T* from, int64_t count) {
    fetch(from + 8192 / int64_t(sizeof(T)), count);
}

// ---- strided rows: to[q] = from[q * stride], and to[q * stride + r] = from_r[q], in units of some bytes ----

template <int first, int step, class V, std::size_t... i>
POOLGRAD_INLINE V every(V a, V b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, int(first + i * step)...);
}
template <int first, class V, std::size_t... i>
POOLGRAD_INLINE V zip(V a, V b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, int(first + i / 2 + i % 2 * sizeof...(i))...);
}

// Elements 0, stride, 2 * stride, ... of `stride` registers, read(0) and so on, an odd number: no two of them lie in the same lane, so
// that they are first joined, then permuted once.
template <int stride, int count>
constexpr int register_of(int lane) {
    int element = 0;
    while (element * stride % count != lane) ++element;
    return element * stride / count;
}
template <int stride, int which, class Read, std::size_t... i>
POOLGRAD_INLINE auto join_odd(const Read& read, std::index_sequence<i...> all) {
    if constexpr (which == 0)
        return read(0);
    else
        return __builtin_shufflevector(join_odd<stride, which - 1>(read, all), read(which),
                                       (register_of<stride, int(sizeof...(i))>(int(i)) == which ? int(i + sizeof...(i)) : int(i))...);
}
template <int stride, class Read, std::size_t... i>
POOLGRAD_INLINE auto every_odd(const Read& read, std::index_sequence<i...> all) {
    const auto joined = join_odd<stride, stride - 1>(read, all);
    return __builtin_shufflevector(joined, joined, int(i * stride % sizeof...(i))...);
}

// to <- {first[0], second[0], first[1], second[1], ...}
template <class A, int lanes, class S>
POOLGRAD_INLINE void store_zipped(S* to, Vector<A, lanes> first, Vector<A, lanes> second) {
    if constexpr (std::is_same_v<S, Bfloat> && std::is_same_v<A, float>) {
        const auto both = zip_bfloats<lanes>(first, second);
        __builtin_memcpy(to, &both, sizeof(both));
    } else if constexpr (lanes == 1) {
        store<A, 1>(to, first), store<A, 1>(to + 1, second);
    } else {
        constexpr std::make_index_sequence<std::size_t(lanes)> all;
        const auto a = narrow<S, A, lanes>(first), b = narrow<S, A, lanes>(second);
        const auto low = zip<0>(a, b, all), high = zip<lanes / 2>(a, b, all);
        __builtin_memcpy(to, &low, sizeof(low)), __builtin_memcpy(to + lanes, &high, sizeof(high));
    }
}

// Shuffles registers for strides 2 and 4, of words also for 3 and 5; the others move unit by unit. Raw is an integer of the unit's size.
// `from` must be readable up to count * stride units.
template <class Raw>
void take_units(std::byte* to, const std::byte* from, int64_t count, int64_t stride) {
    constexpr int lanes = kLanes<Raw>, bytes = int(sizeof(Raw));
    constexpr std::make_index_sequence<std::size_t(lanes)> all;
    const auto read = [&](int64_t unit) POOLGRAD_LAMBDA { return load<Raw, lanes>(reinterpret_cast<const Raw*>(from + unit * bytes)); };
    int64_t q = 0;
    const auto two = [&](int64_t at) POOLGRAD_LAMBDA {
        store<Raw, lanes>(reinterpret_cast<Raw*>(to + at * bytes), every<0, 2>(read(2 * at), read(2 * at + lanes), all));
    };
    const auto four = [&](int64_t at) POOLGRAD_LAMBDA {
        const auto low = every<0, 2>(read(4 * at), read(4 * at + lanes), all);
        const auto high = every<0, 2>(read(4 * at + 2 * lanes), read(4 * at + 3 * lanes), all);
        store<Raw, lanes>(reinterpret_cast<Raw*>(to + at * bytes), every<0, 2>(low, high, all));
    };
    const auto odd = [&](auto step, int64_t at) POOLGRAD_LAMBDA {
        const auto part = [&](int i) POOLGRAD_LAMBDA { return read(step() * at + i * lanes); };
        store<Raw, lanes>(reinterpret_cast<Raw*>(to + at * bytes), every_odd<step()>(part, all));
    };
    // The last register overlaps the one before.
    if (stride == 2 && count >= lanes)
        for (; q < count; q += lanes) two(std::min(q, count - lanes));
    if (stride == 4 && count >= lanes)
        for (; q < count; q += lanes) four(std::min(q, count - lanes));
    if constexpr (bytes >= 4) {
        if (stride == 3 && count >= lanes)
            for (; q < count; q += lanes) odd(Constant<3>(), std::min(q, count - lanes));
        if (stride == 5 && count >= lanes)
            for (; q < count; q += lanes) odd(Constant<5>(), std::min(q, count - lanes));
    }
    for (; q < count; ++q) __builtin_memcpy(to + q * bytes, from + q * stride * bytes, sizeof(Raw));
}
template <class Raw>
void lay_units(std::byte* to, const std::byte* const* from, int64_t count, int64_t stride) {
    constexpr int lanes = kLanes<Raw>, bytes = int(sizeof(Raw));
    constexpr std::make_index_sequence<std::size_t(lanes)> all;
    const auto read = [&](int r, int64_t q) POOLGRAD_LAMBDA { return load<Raw, lanes>(reinterpret_cast<const Raw*>(from[r] + q * bytes)); };
    const auto write = [&](int64_t unit, auto value) POOLGRAD_LAMBDA { store<Raw, lanes>(reinterpret_cast<Raw*>(to + unit * bytes), value); };
    int64_t q = 0;
    const auto two = [&](int64_t at) POOLGRAD_LAMBDA {
        const auto a = read(0, at), b = read(1, at);
        write(2 * at, zip<0>(a, b, all)), write(2 * at + lanes, zip<lanes / 2>(a, b, all));
    };
    const auto four = [&](int64_t at) POOLGRAD_LAMBDA {
        const auto a = read(0, at), b = read(1, at), c = read(2, at), d = read(3, at);
        const auto ac = zip<0>(a, c, all), bd = zip<0>(b, d, all), ac2 = zip<lanes / 2>(a, c, all), bd2 = zip<lanes / 2>(b, d, all);
        write(4 * at, zip<0>(ac, bd, all)), write(4 * at + lanes, zip<lanes / 2>(ac, bd, all));
        write(4 * at + 2 * lanes, zip<0>(ac2, bd2, all)), write(4 * at + 3 * lanes, zip<lanes / 2>(ac2, bd2, all));
    };
    if (stride == 2 && count >= lanes)
        for (; q < count; q += lanes) two(std::min(q, count - lanes));
    if (stride == 4 && count >= lanes)
        for (; q < count; q += lanes) four(std::min(q, count - lanes));
    for (; q < count; ++q)
        for (int64_t r = 0; r < stride; ++r) __builtin_memcpy(to + (q * stride + r) * bytes, from[r] + q * bytes, sizeof(Raw));
}

// Calls function(Constant<bytes>) where a unit has one of the sizes that a compiler copies at once, else says no.
template <class Function>
POOLGRAD_INLINE bool with_unit(int64_t bytes, const Function& function) {
    switch (bytes) {
        case 3: return function(Constant<3>()), true;
        case 6: return function(Constant<6>()), true;
        case 12: return function(Constant<12>()), true;
        case 16: return function(Constant<16>()), true;
        case 24: return function(Constant<24>()), true;
        case 32: return function(Constant<32>()), true;
        default: return false;
    }
}

template <class T>
inline void fill_row(T* to, int64_t count, T value) {
    using Raw = typename BitsOf<sizeof(T)>::type;
    const Raw raw = bit_copy<Raw>(value);
    each_column<Raw>(count, [=](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        store<Raw, lanes>(reinterpret_cast<Raw*>(to + at), spread<Raw, lanes>(raw));
    });
}

// `count` copies of a unit; returns the end.
template <class T>
inline T* repeat(T* to, const T* from, int64_t count, int64_t unit) {
    if (count <= 0) return to;
    if (unit == 1)
        fill_row(to, count, *from);
    else
        for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * unit, from, std::size_t(unit) * sizeof(T));
    return to + count * unit;
}

template <class T>
void take_strided(T* to, const T* from, int64_t count, int64_t stride, int64_t unit) {
    auto* bytes_to = reinterpret_cast<std::byte*>(to);
    const auto* bytes_from = reinterpret_cast<const std::byte*>(from);
    const int64_t bytes = unit * int64_t(sizeof(T));
    const auto copy = [&](auto size) POOLGRAD_LAMBDA {
        for (int64_t q = 0; q < count; ++q) __builtin_memcpy(bytes_to + q * size, bytes_from + q * stride * size, std::size_t(size));
    };
    switch (bytes) {
        case 1: return take_units<int8_t>(bytes_to, bytes_from, count, stride);
        case 2: return take_units<int16_t>(bytes_to, bytes_from, count, stride);
        case 4: return take_units<int32_t>(bytes_to, bytes_from, count, stride);
        case 8: return take_units<int64_t>(bytes_to, bytes_from, count, stride);
        default:
            if (!with_unit(bytes, [&](auto size) { copy(int64_t(decltype(size)::value)); })) copy(bytes);
    }
}
template <class T>
void lay_strided(T* to, const T* const* from, int64_t count, int64_t stride, int64_t unit) {
    auto* bytes_to = reinterpret_cast<std::byte*>(to);
    const auto* bytes_from = reinterpret_cast<const std::byte* const*>(from);
    const int64_t bytes = unit * int64_t(sizeof(T));
    const auto copy = [&](auto size) POOLGRAD_LAMBDA {
        for (int64_t q = 0; q < count; ++q)
            for (int64_t r = 0; r < stride; ++r)
                __builtin_memcpy(bytes_to + (q * stride + r) * size, bytes_from[r] + q * size, std::size_t(size));
    };
    switch (bytes) {
        case 1: return lay_units<int8_t>(bytes_to, bytes_from, count, stride);
        case 2: return lay_units<int16_t>(bytes_to, bytes_from, count, stride);
        case 4: return lay_units<int32_t>(bytes_to, bytes_from, count, stride);
        case 8: return lay_units<int64_t>(bytes_to, bytes_from, count, stride);
        default:
            if (!with_unit(bytes, [&](auto size) { copy(int64_t(decltype(size)::value)); })) copy(bytes);
    }
}

// to <- `count` units of the groups {rows[0][q], rows[1][q], ... rows[stride - 1][q]}, the first `lead` units of group 0 left out.
template <class T>
void lay_row(T* to, const T* const* rows, int64_t lead, int64_t count, int64_t stride, int64_t unit) {
    int64_t group = 0, r = lead;
    for (; lead && r < stride && count > 0; ++r, --count) to = repeat(to, rows[r], 1, unit);
    if (lead) group = 1;
    const int64_t groups = count / stride;
    const T* starts[16];
    for (int64_t i = 0; i < stride; ++i) starts[i] = rows[i] + group * unit;
    lay_strided(to, starts, groups, stride, unit);
    to += groups * stride * unit;
    for (int64_t i = 0; i < count - groups * stride; ++i) to = repeat(to, starts[i] + groups * unit, 1, unit);
}

// Whether results go past the caches: those of calls that read and write so many bytes that nobody would find them there. Of smaller ones
// plain stores are faster, up to twice.
inline bool is_streamed(int64_t traffic) { return traffic >= 36 << 20; }

// Whether a source of so many bytes comes from memory: one that may stay in the third cache is faster read without asking for it.
inline bool is_far(int64_t bytes) { return bytes >= 24 << 20; }

// Results on their way to memory. Plain: rows are written in place. Streaming: rows gather in a small buffer and leave it in whole
// cache lines past the caches, which spares reading the destination first.
template <class T>
class Writer {
  public:
    Writer() = default;
    Writer(T* destination, T* buffer, int64_t capacity) : destination_(destination), buffer_(buffer), capacity_(capacity) {}

    // Where to put the `length` results from index `at` on, before the next call.
    T* row(int64_t at, int64_t length) {
        if (!buffer_) return destination_ + at;
        if (at != first_ + filled_) flush(true), first_ = at;
        if (filled_ + length > capacity_) flush(false);
        filled_ += length;
        return buffer_ + filled_ - length;
    }

    // The `length` results from index `at` on; without `from`, zeros.
    void put(int64_t at, const T* from, int64_t length) {
        constexpr int64_t line = 64 / int64_t(sizeof(T));
        if (!from) {
            for (int64_t count; length > 0; at += count, length -= count)
                count = buffer_ ? std::min(length, line) : length, std::memset(row(at, count), 0, std::size_t(count) * sizeof(T));
            return;
        }
        // What is kept is filled up to a line; whole lines need not be kept.
        const int64_t over = int64_t(reinterpret_cast<std::uintptr_t>(destination_ + at) % 64 / sizeof(T));
        const int64_t joins = !buffer_ ? length : filled_ && over && at == first_ + filled_ ? std::min(length, line - over) : 0;
        if (joins) copy_row(row(at, joins), from, joins);
        if (joins == length) return;
        flush(true);
        const int64_t sent = joins + stream_copy(destination_ + at + joins, from + joins, length - joins, false);
        first_ = at + sent, filled_ = length - sent;
        std::memcpy(buffer_, from + sent, std::size_t(filled_) * sizeof(T));
    }

    // Must be called at the end.
    void finish() {
        if (!buffer_) return;
        flush(true);
        stream_fence();
    }

  private:
    // Sends what is there; without `all` the last, incomplete line stays for its continuation.
    void flush(bool all) {
        const int64_t sent = stream_copy(destination_ + first_, buffer_, filled_, all);
        std::memmove(buffer_, buffer_ + sent, std::size_t(filled_ - sent) * sizeof(T));
        first_ += sent;
        filled_ -= sent;
    }

    T *destination_ = nullptr, *buffer_ = nullptr;
    int64_t capacity_ = 0, first_ = 0, filled_ = 0;
};

}  // namespace poolgrad::POOLGRAD_ISA
