// Global averages of planes: each plane is summed over depth and height, then kPlanes of them side by side along width.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class A>
class GlobalAverage : Sides {
  public:
    explicit GlobalAverage(const AverageCall& call) : Sides(call, false) {}

    bool usable() const {
        const auto whole = [](const Side& side) { return side.destinations() == 1 && side.axis->window(0).size() == side.sources(); };
        return inner_ == 1 && whole(depth_) && whole(height_) && whole(width_) && depth_.sources() <= kBlock && height_.sources() <= kBlock &&
               width_.sources() <= kBlock && width_.sources() > 1;
    }

    void run(int64_t traffic) const {
        constexpr int lanes = kLanes<A>;
        const int64_t outers = call_.layout.outer, deep = depth_.sources(), high = height_.sources(), wide = width_.sources();
        const int64_t row = divide_up(wide, lanes) * lanes, plane = deep * high * wide;
        const S *source = static_cast<const S*>(call_.source), *end = source + outers * plane;
        const A divisor = Divisor().times(depth_.axis->divisor(0)).times(height_.axis->divisor(0)).times(width_.axis->divisor(0)).template as<A>();
        Tiling tiling{{divide_up(outers, kPlanes<A>), 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
        balance(tiling, call_.workers, plane * kPlanes<A> * int64_t(sizeof(S)));
        const int64_t scratch_size = kPlanes<A> * row + kBeyond;
        run_boxes(tiling, call_.workers, traffic, scratch_size * int64_t(sizeof(A)), [&](const Box& box, std::byte* scratch) {
            A* sums = reinterpret_cast<A*>(scratch);
            for (int64_t group = box.outer.first; group < box.outer.last; ++group) {
                const int64_t first = group * kPlanes<A>, count = std::min<int64_t>(kPlanes<A>, outers - first);
                const S* planes = source + first * plane;
                // Planes that do not end too near to the end of all.
                const int64_t far = deep > 1 ? 0 : std::clamp<int64_t>((end - planes - kBeyond) / std::max<int64_t>(1, plane), 0, count);
                sum_far(planes, far, high, wide, sums, row);
                for (int64_t p = far; p < count; ++p) sum_down(planes + p * plane, end, deep, high, wide, sums + p * row);
                const A* from[kPlanes<A>];
                for (int64_t p = 0; p < kPlanes<A>; ++p) from[p] = sums + std::min(p, count - 1) * row;
                A totals[kPlanes<A>];
                S results[kPlanes<A>];
                sum_along_planes<A>(totals, from, wide, false);
                (Registers<A, 2>::read(totals) / divisor).write(results);
                std::memcpy(static_cast<S*>(call_.destination) + first, results, std::size_t(count) * sizeof(S));
            }
        });
    }

  private:
    static constexpr int kMost = 14;                   // registers of sums at once: one is left for what is added
    static constexpr int64_t kBeyond = 3 * kLanes<A>;  // elements that are read and written beyond a row, at most

    // to <- the sums of planes over height. Rows are read as they lie, one after the other, which the CPU foresees, and beyond their width:
    // what that gives is not used, or is written again.
    static void sum_far(const S* planes, int64_t count, int64_t high, int64_t wide, A* to, int64_t pitch) {
        const int64_t registers = divide_up(wide, kLanes<A>), together = registers <= kMost ? count : 1;
        for (int64_t p = 0; p < count; p += together)
            for (int64_t done = 0; done < registers; done += kMost) {
                const int64_t w = done * kLanes<A>, left = registers - done;
                const auto sum = [&](auto many) { sum_columns<many()>(planes + p * high * wide + w, together, high, wide, to + p * pitch + w, pitch); };
                switch (std::min<int64_t>(left, kMost)) {
                    case 1: sum(Constant<1>()); break;
                    case 2: sum(Constant<2>()); break;
                    case 3: sum(Constant<3>()); break;
                    case 4: sum(Constant<4>()); break;
                    case 5: case 6: sum(Constant<6>()); break;
                    case 7: case 8: sum(Constant<8>()); break;
                    case 9: case 10: case 11: sum(Constant<11>()); break;
                    default: sum(Constant<kMost>());
                }
            }
    }
    template <int registers>
    POOLGRAD_NOINLINE static void sum_columns(const S* from, int64_t count, int64_t high, int64_t wide, A* to, int64_t pitch) {
        for (; count > 0; --count, to += pitch) {
            auto total = Registers<A, registers>::read(from);
            const auto add = [&]() POOLGRAD_LAMBDA { from += wide, total = total + Registers<A, registers>::read(from); };
            int64_t rows = high - 1;
            for (; registers < 4 && rows >= 3; rows -= 3) add(), add(), add();
            for (; rows > 0; --rows) add();
            from += wide;
            total.write(to);
        }
    }
    // to <- the sums of a plane over depth and height, whole registers of columns, four at a time while there are so many: what lies
    // beyond its width is read and not used.
    static void sum_down(const S* plane, const S* end, int64_t deep, int64_t high, int64_t wide, A* to) {
        constexpr int lanes = kLanes<A>;
        // The CPU waits for short rows one after the other, and does not foresee parts of long ones.
        for (int64_t i = 0; wide < 4 * lanes && i < deep * high * wide; i += 64 / int64_t(sizeof(S))) __builtin_prefetch(plane + 2048 / sizeof(S) + i);
        const auto sum_registers = [&](auto registers, int64_t w, const auto& read) POOLGRAD_LAMBDA {
            Vector<A, lanes> total[registers()];
            for (int i = 0; i < registers(); ++i) total[i] = spread<A, lanes>(A(-0.0));
            const S* from = plane + w;
            for (int64_t h = 0; h < high; ++h, from += wide) {
                if (registers() > 1)
                    for (int i = 0; i < registers() * lanes; i += 64 / int(sizeof(S))) __builtin_prefetch(from + 8 * wide + i);
                for (int i = 0; i < registers(); ++i) {
                    Vector<A, lanes> sum = read(from + i * lanes);
                    for (int64_t d = 1; d < deep; ++d) sum = sum + read(from + d * high * wide + i * lanes);
                    total[i] = total[i] + sum;
                }
            }
            for (int i = 0; i < registers(); ++i) store<A, lanes>(to + w + i * lanes, total[i]);
        };
        const auto whole = [](const S* from) POOLGRAD_LAMBDA { return load<A, lanes>(from); };
        int64_t w = 0;
        for (; w + 4 * lanes <= wide; w += 4 * lanes) sum_registers(Constant<4>(), w, whole);
        // The last plane of all ends with its last register.
        const bool more = end - plane >= deep * high * wide + lanes;
        for (; w < wide; w += lanes)
            if (more)
                sum_registers(Constant<1>(), w, whole);
            else
                sum_registers(Constant<1>(), w, [&](const S* from) POOLGRAD_LAMBDA {
                    S last[lanes] = {};
                    std::memcpy(last, from, std::size_t(std::min<int64_t>(lanes, wide - w)) * sizeof(S));
                    return load<A, lanes>(last);
                });
    }
};

}  // namespace poolgrad::POOLGRAD_ISA
