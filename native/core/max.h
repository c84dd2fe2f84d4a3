// Maxima, their gradients and the gather that is the gradient's gradient. A maximum is the first one in row-major order, NaN above
// all; its winner is a code: the row-major offset from the clipped window's start, in the table's longest windows.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Comparisons run in V, codes in C of the same size. Promotion is exact and keeps order, ties and NaN.
template <class S, bool wide>
struct Compute {
    using V = std::conditional_t<is_float<S>, std::conditional_t<wide || sizeof(S) == 8, double, float>,
                                 std::conditional_t<sizeof(S) == 8, S,
                                 std::conditional_t<wide, int64_t, std::conditional_t<std::is_same_v<S, uint32_t>, uint32_t, int32_t>>>>;
    using C = std::conditional_t<sizeof(V) == 8, uint64_t, uint32_t>;
};

// A minimum is a maximum of values with the sign (floats) or all bits (integers) turned over.
template <class V, int lanes>
POOLGRAD_INLINE Vector<V, lanes> turn(Vector<V, lanes> value, bool minimum) {
    using Bits = typename BitsOf<sizeof(V)>::type;
    constexpr Bits mask = std::is_floating_point_v<V> ? std::numeric_limits<Bits>::min() : Bits(-1);
    const auto bits = bit_copy<Vector<Bits, lanes>>(value) ^ spread<Bits, lanes>(minimum ? mask : Bits(0));
    return bit_copy<Vector<V, lanes>>(Vector<Bits, lanes>(bits));
}

// x > best, or the first NaN.
template <class V, int lanes>
POOLGRAD_INLINE Mask<V, lanes> better(Vector<V, lanes> x, Vector<V, lanes> best) {
    if constexpr (!std::is_floating_point_v<V>)
        return x > best;
    else if constexpr (lanes == 1)
        return !(x <= best) && best == best;
    else
        return ~(x <= best) & (best == best);
}

struct Window {
    Range depth, height, width;
};

template <class S>
struct Volume {
    S* data;
    int64_t depth, height, width, inner;  // sizes; the memory is [outer, depth, height, width, inner]
    int64_t at(int64_t outer, int64_t d, int64_t h, int64_t w) const {
        return (((outer * depth + d) * height + h) * width + w) * inner;
    }
};

// Maxima and codes of one window for `length` neighbouring inner elements from `at`. Either result may be null.
template <class S, class V, class C>
void best_run(const Volume<const S>& source, int64_t at, const Window& window, const std::array<uint64_t, 3>& step, bool minimum,
              int64_t length, S* values, C* codes) {
    const auto columns = [&](auto lanes_of, int64_t c) {
        constexpr int lanes = decltype(lanes_of)::value;
        const S* start = source.data + at + c;
        Vector<V, lanes> best = turn<V, lanes>(load<V, lanes>(start), minimum);
        Vector<C, lanes> code = spread<C, lanes>(0);
        for (int64_t d = 0; d < window.depth.size(); ++d)
            for (int64_t h = 0; h < window.height.size(); ++h) {
                const S* row = start + (d * source.height + h) * source.width * source.inner;
                C here = C(uint64_t(d) * step[0] + uint64_t(h) * step[1]);
                for (int64_t w = 0; w < window.width.size(); ++w, here += C(step[2])) {
                    const auto x = turn<V, lanes>(load<V, lanes>(row + w * source.inner), minimum);
                    const auto mask = better<V, lanes>(x, best);
                    best = select<V, lanes>(mask, x, best);
                    code = select<C, lanes>(mask, spread<C, lanes>(here), code);
                }
            }
        if (values) store<V, lanes>(values + c, turn<V, lanes>(best, minimum));
        if (codes) store<C, lanes>(codes + c, code);
    };
    int64_t c = 0;
    for (; c + kLanes<V> <= length; c += kLanes<V>) columns(std::integral_constant<int, kLanes<V>>(), c);
    for (; c < length; ++c) columns(std::integral_constant<int, 1>(), c);
}

// Calls function(typed pointer) for codes stored in 1, 2, 4 or 8 bytes.
template <class Function>
void visit_winners(void* winners, int bytes, const Function& function) {
    switch (bytes) {
        case 1: return function(static_cast<uint8_t*>(winners));
        case 2: return function(static_cast<uint16_t*>(winners));
        case 4: return function(static_cast<uint32_t*>(winners));
        default: return function(static_cast<uint64_t*>(winners));
    }
}

inline constexpr int64_t kMaxRun = 1024;  // inner elements handled at once: 8 KiB of the widest type

template <class S, class V, class C>
class Max {
  public:
    explicit Max(const MaxCall& call)
        : call_(call), depth_(*call.layout.axes[0]), height_(*call.layout.axes[1]), width_(*call.layout.axes[2]) {
        input_ = {static_cast<const S*>(call.source), depth_.input_size(), height_.input_size(), width_.input_size(), call.layout.inner};
        output_ = {nullptr, depth_.output_size(), height_.output_size(), width_.output_size(), call.layout.inner};
    }

    void forward() {
        each_output([&](int64_t, int64_t at, int64_t from, const Window& window, int64_t run, C* codes) {
            best_run<S, V, C>(input_, from, window, call_.layout.code_step, call_.minimum, run,
                              call_.values ? static_cast<S*>(call_.values) + at : nullptr, call_.winners ? codes : nullptr);
            if (call_.winners)
                visit_winners(call_.winners, call_.winner_bytes, [&](auto* winners) {
                    for (int64_t i = 0; i < run; ++i) winners[at + i] = std::remove_reference_t<decltype(*winners)>(codes[i]);
                });
        });
    }

    // destination[o] = source[winner of o]
    int64_t take() {
        FirstIndex bad;
        each_output([&](int64_t, int64_t at, int64_t from, const Window& window, int64_t run, C* codes) {
            read_winners(at, run, codes);
            for (int64_t i = 0; i < run; ++i) {
                const Offset offset = decode(codes[i], window);
                if (!offset.valid) { bad.report(at + i); continue; }
                static_cast<S*>(call_.destination)[at + i] =
                    input_.data[from + ((offset.d * input_.height + offset.h) * input_.width + offset.w) * input_.inner + i];
            }
        });
        return bad.value();
    }

    // Adds each output's gradient to its winner. Every box of the destination has one owner, which visits the outputs that reach it
    // in ascending row-major order. With `from_input` the winners are found again, else read.
    int64_t gradient(bool from_input) {
        FirstIndex bad;
        Tiling tiling;
        const int64_t inner = input_.inner;
        tiling.extent = {call_.layout.outer, input_.depth, input_.height, input_.width, inner};
        for (int64_t size : tiling.extent)
            if (size == 0) return -1;
        const int64_t run = std::min(inner, kMaxRun);
        // A box of accumulators stays within 256 KiB.
        constexpr int64_t room = (256 << 10) / int64_t(sizeof(A));
        const int64_t across = std::clamp<int64_t>(room / run, 1, input_.width);
        const int64_t down = std::clamp<int64_t>(room / (run * across), 1, input_.height);
        const int64_t deep = std::clamp<int64_t>(room / (run * across * down), 1, input_.depth);
        tiling.tile = {1, deep, down, across, run};
        balance(tiling, call_.workers, int64_t(sizeof(S)));
        int64_t traffic = int64_t(sizeof(S));
        for (int64_t size : tiling.extent) traffic *= size;
        const int64_t tile = tiling.tile[1] * tiling.tile[2] * tiling.tile[3] * run;
        const auto rooms = [&](std::byte* base) {
            Arena arena(base);
            C* codes = arena.take<C>(run);
            S* values = arena.take<S>(from_input ? run : 0);
            A* sums = arena.take<A>(is_small_float<S> ? tile : 0);
            return std::tuple(codes, values, sums, arena.used());
        };
        run_boxes(tiling, call_.workers, traffic, std::get<3>(rooms(nullptr)), [&](const Box& box, std::byte* scratch) {
            const auto [codes, values, sums, used] = rooms(scratch);
            (void)used;
            for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
                gradient_box(box, outer, from_input, codes, values, sums, bad);
        });
        return bad.value();
    }

  private:
    using A = Accumulator<S>;

    struct Offset {
        bool valid;
        int64_t d, h, w;
    };

    Offset decode(uint64_t code, const Window& window) const {
        uint64_t offset[3] = {0, 0, 0};
        for (std::size_t i = 0; i < 3; ++i)
            if (call_.layout.code_step[i]) offset[i] = code / call_.layout.code_step[i], code %= call_.layout.code_step[i];
        const bool valid = code == 0 && offset[0] < uint64_t(window.depth.size()) && offset[1] < uint64_t(window.height.size()) &&
                           offset[2] < uint64_t(window.width.size());
        return {valid, int64_t(offset[0]), int64_t(offset[1]), int64_t(offset[2])};
    }

    void read_winners(int64_t at, int64_t run, C* codes) const {
        visit_winners(call_.winners, call_.winner_bytes, [&](const auto* winners) {
            for (int64_t i = 0; i < run; ++i) codes[i] = C(winners[at + i]);
        });
    }

    // Calls function(outer, output index, input index of the window's start, window, run, codes) for all outputs, in parallel.
    template <class Function>
    void each_output(const Function& function) const {
        Tiling tiling;
        tiling.extent = {call_.layout.outer, output_.depth, output_.height, output_.width, output_.inner};
        for (int64_t size : tiling.extent)
            if (size == 0) return;
        tiling.tile = tiling.extent;
        tiling.tile[4] = std::min(kMaxRun, output_.inner);
        tiling.tile[0] = 1;
        int64_t traffic = call_.layout.outer * input_.depth * input_.height * input_.width * input_.inner * int64_t(sizeof(S));
        balance(tiling, call_.workers, std::max<int64_t>(1, traffic / (call_.layout.outer * output_.depth * output_.height * output_.width * output_.inner)));
        run_boxes(tiling, call_.workers, traffic, tiling.tile[4] * int64_t(sizeof(C)), [&](const Box& box, std::byte* scratch) {
            C* codes = reinterpret_cast<C*>(scratch);
            for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
                for (int64_t d = box.depth.first; d < box.depth.last; ++d)
                    for (int64_t h = box.height.first; h < box.height.last; ++h)
                        for (int64_t w = box.width.first; w < box.width.last; ++w) {
                            const Window window{depth_.window(d), height_.window(h), width_.window(w)};
                            function(outer, output_.at(outer, d, h, w) + box.inner.first,
                                     input_.at(outer, window.depth.first, window.height.first, window.width.first) + box.inner.first,
                                     window, box.inner.size(), codes);
                        }
        });
    }

    static bool same(S a, S b) {
        const V x = load<V, 1>(&a), y = load<V, 1>(&b);
        return x == y || (x != x && y != y);
    }

    void gradient_box(const Box& box, int64_t outer, bool from_input, C* codes, S* values, A* sums, FirstIndex& bad) const {
        const Side depth{&depth_, true}, height{&height_, true}, width{&width_, true};
        const int64_t run = box.inner.size();
        S* result = static_cast<S*>(call_.destination);
        // Small floats are summed beside the result and rounded once, others in the result itself.
        const bool beside = is_small_float<S>;
        const int64_t pitch_w = beside ? run : input_.inner;
        const int64_t pitch_h = pitch_w * (beside ? box.width.size() : input_.width);
        const int64_t pitch_d = pitch_h * (beside ? box.height.size() : input_.height);
        A* origin = beside ? sums : reinterpret_cast<A*>(result) + input_.at(outer, box.depth.first, box.height.first, box.width.first) + box.inner.first;
        const auto cell = [&](int64_t d, int64_t h, int64_t w) {
            return origin + (d - box.depth.first) * pitch_d + (h - box.height.first) * pitch_h + (w - box.width.first) * pitch_w;
        };
        for (int64_t d = box.depth.first; d < box.depth.last; ++d)
            for (int64_t h = box.height.first; h < box.height.last; ++h)
                for (int64_t w = box.width.first; w < box.width.last; ++w) std::fill_n(cell(d, h, w), run, A(0));
        const Range ds = depth.range(box.depth), hs = height.range(box.height), ws = width.range(box.width);
        for (int64_t d = ds.first; d < ds.last; ++d)
            for (int64_t h = hs.first; h < hs.last; ++h)
                for (int64_t w = ws.first; w < ws.last; ++w) {
                    const Window window{depth_.window(d), height_.window(h), width_.window(w)};
                    const int64_t at = output_.at(outer, d, h, w) + box.inner.first;
                    if (from_input) {
                        const int64_t from = input_.at(outer, window.depth.first, window.height.first, window.width.first) + box.inner.first;
                        best_run<S, V, C>(input_, from, window, call_.layout.code_step, call_.minimum, run,
                                          call_.expected ? values : nullptr, codes);
                        if (call_.expected)
                            for (int64_t i = 0; i < run; ++i)
                                if (!same(values[i], static_cast<const S*>(call_.expected)[at + i])) bad.report(at + i);
                    } else {
                        read_winners(at, run, codes);
                    }
                    const S* grad = static_cast<const S*>(call_.grad) + at;
                    for (int64_t i = 0; i < run; ++i) {
                        const Offset offset = decode(codes[i], window);
                        if (!offset.valid) { bad.report(at + i); continue; }
                        const int64_t z = window.depth.first + offset.d, y = window.height.first + offset.h, x = window.width.first + offset.w;
                        if (z < box.depth.first || z >= box.depth.last || y < box.height.first || y >= box.height.last ||
                            x < box.width.first || x >= box.width.last) continue;
                        A* sum = cell(z, y, x) + i;
                        *sum = A(*sum + load<A, 1>(grad + i));
                    }
                }
        if constexpr (is_small_float<S>)
            for (int64_t d = box.depth.first; d < box.depth.last; ++d)
                for (int64_t h = box.height.first; h < box.height.last; ++h)
                    for (int64_t w = box.width.first; w < box.width.last; ++w) {
                        S* to = result + input_.at(outer, d, h, w) + box.inner.first;
                        for (int64_t i = 0; i < run; ++i) store<A, 1>(to + i, cell(d, h, w)[i]);
                    }
    }

    const MaxCall& call_;
    const Axis &depth_, &height_, &width_;
    Volume<const S> input_, output_;
};

}  // namespace poolgrad::POOLGRAD_ISA
