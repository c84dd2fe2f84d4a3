// What all averages know of a call: its three sides, as the destination sees them.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

struct Sides {
    Sides(const AverageCall& call, bool gradient)
        : call_(call), inner_(call.layout.inner), depth_{call.layout.axes[0], gradient}, height_{call.layout.axes[1], gradient},
          width_{call.layout.axes[2], gradient} {
        if (!width_.axis->rule()) return;
        rule_ = *width_.axis->rule();
        // With a single output the stride does not matter; this one says that windows do not overlap.
        if (rule_.output_size == 1) rule_.stride = std::max(rule_.stride, rule_.window);
    }

    Extent destinations() const { return {call_.layout.outer, depth_.destinations(), height_.destinations(), width_.destinations(), inner_}; }
    int64_t destination_at(int64_t outer, int64_t d, int64_t h, int64_t w) const {
        return (((outer * depth_.destinations() + d) * height_.destinations() + h) * width_.destinations() + w) * inner_;
    }
    template <class S>
    const S* source_at(int64_t outer, int64_t d, int64_t h, int64_t w) const {
        return static_cast<const S*>(call_.source) + (((outer * depth_.sources() + d) * height_.sources() + h) * width_.sources() + w) * inner_;
    }
    // Heights of a box where planes of the source come back for the next depth: what they read stays within 512 KiB. Parts alike, rather a
    // little larger than one more.
    int64_t cached_heights(int64_t row_bytes) const {
        const int64_t all = height_.destinations();
        const int64_t down = fitting_tile(height_, std::max<int64_t>(4 + height_.longest(), (512 << 10) / (depth_.longest() * row_bytes)));
        return divide_up(all, std::max<int64_t>(1, (all + down / 2) / down));
    }
    // Whether the first and the last of the inputs lie in windows; where these overlap so do those between.
    bool is_covered() const { return !width_.range(0).empty() && !width_.range(width_.destinations() - 1).empty(); }

    const AverageCall& call_;
    const int64_t inner_;
    const Side depth_, height_, width_;
    Rule rule_{};  // of width, if it has one
};

// In a gradient each source is weighed by the reciprocals of its divisors.
template <class A>
void fill_weights(const Side& side, int64_t first, int64_t count, A* weights) {
    for (int64_t i = 0; side.gradient && i < count; ++i) weights[i] = A(1) / A(side.axis->divisor(first + i));
}

}  // namespace poolgrad::POOLGRAD_ISA
