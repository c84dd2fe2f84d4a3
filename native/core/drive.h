// Work split: a call is a grid of boxes of the destination, each computed by one worker, no element by two.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Dimensions of everything that is split, slowest first: outer, depth, height, width, inner.
inline constexpr std::size_t kDimensions = 5;
using Extent = std::array<int64_t, kDimensions>;

struct Box {
    Range outer, depth, height, width, inner;
};

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Tiling {
    Extent extent, tile;

    bool empty() const { return std::find(extent.begin(), extent.end(), 0) != extent.end(); }
    int64_t elements() const { return extent[0] * extent[1] * extent[2] * extent[3] * extent[4]; }
    int64_t items() const {
        int64_t product = 1;
        for (std::size_t i = 0; i < kDimensions; ++i) product *= divide_up(extent[i], tile[i]);
        return product;
    }
    Box whole() const { return {{0, extent[0]}, {0, extent[1]}, {0, extent[2]}, {0, extent[3]}, {0, extent[4]}}; }
    Box box(int64_t item) const {
        Range range[kDimensions];
        for (std::size_t i = kDimensions; i-- > 0;) {
            const int64_t count = divide_up(extent[i], tile[i]);
            const int64_t first = item % count * tile[i];
            item /= count;
            range[i] = {first, std::min(first + tile[i], extent[i])};
        }
        return {range[0], range[1], range[2], range[3], range[4]};
    }
};

// Fits the tile to the job. Cut where it costs least (outer, then depth, then height, width) until every worker has some boxes or
// boxes are small; joined along outer while boxes are tiny, so that taking one costs nothing beside its work.
inline void balance(Tiling& tiling, int workers, int64_t bytes_per_element, int boxes_each = 4) {
    constexpr int64_t kSmallBox = 64 << 10;
    int64_t bytes = bytes_per_element;
    for (int64_t size : tiling.tile) bytes *= size;
    if (bytes == 0) return;
    for (std::size_t i = 1; i < 4; ++i)
        while (workers > 1 && tiling.items() < boxes_each * workers && bytes > kSmallBox && tiling.tile[i] > 1) {
            const int64_t cut = divide_up(tiling.tile[i], 2);
            bytes = bytes / tiling.tile[i] * cut;
            tiling.tile[i] = cut;
        }
    const int64_t most = workers > 1 ? std::max<int64_t>(1, tiling.extent[0] / (4 * workers)) : tiling.extent[0];
    tiling.tile[0] = std::clamp<int64_t>(kSmallBox * 4 / bytes, 1, std::max<int64_t>(1, most));
}

// Below this much traffic a second thread costs more than it saves: waking it takes about 5 us, 50 KB of copying.
inline constexpr int64_t kParallelBytes = 64 << 10;

// Runs body(box, scratch) for every box; `scratch` is a worker's own, of the given size, allocated here by the caller.
template <class Function>
void run_boxes(const Tiling& tiling, int workers, int64_t traffic, int64_t scratch_bytes, const Function& body) {
    const int64_t items = tiling.items();
    if (traffic < kParallelBytes) workers = 1;
    workers = int(std::min<int64_t>(workers, items));
    if (workers <= 0) return;
    const int64_t each = (scratch_bytes + 63) / 64 * 64;
    const Scratch scratch(each * workers);
    auto item = [&](int64_t index, int slot) { body(tiling.box(index), scratch.data() + each * slot); };
    parallel_for(items, workers, item);
}

// One axis as the destination sees it: which source indices it sums. Forward these are windows, in a gradient covers.
struct Side {
    const Axis* axis;
    bool gradient;

    int64_t sources() const { return gradient ? axis->output_size() : axis->input_size(); }
    int64_t destinations() const { return gradient ? axis->input_size() : axis->output_size(); }
    int64_t longest() const { return gradient ? axis->longest_cover() : axis->longest_window(); }
    // At least as many sources as `count` neighbouring ranges span where they overlap.
    int64_t together(int64_t count) const {
        const int64_t step = axis->rule() && !gradient ? axis->rule()->stride : axis->rule() ? 1 : longest();
        return longest() + (count - 1) * std::min(step, longest());
    }
    Range range(int64_t destination) const {
        return gradient ? axis->cover(destination) : axis->window(destination);
    }
    // All sources of some destinations; ranges never decrease, so the ends suffice.
    Range range(Range destinations) const {
        if (destinations.empty()) return {0, 0};
        const int64_t first = range(destinations.first).first, last = range(destinations.last - 1).last;
        return {std::min(first, last), last};
    }
};

// About how many elements are looked at for each output where windows are folded along one axis after the other: every row that they have in
// common is folded once. Along an axis by 1, neighbours share most of what is left.
inline double by_axes(const Axis& first, const Axis& second, const Axis& third) {
    const auto step = [](const Axis& axis) {
        return axis.rule() ? double(axis.rule()->stride) : double(axis.input_size()) / double(std::max<int64_t>(1, axis.output_size()));
    };
    const auto terms = [&](const Axis& axis) { return std::min(double(axis.longest_window()), step(axis) > 1 ? 0x1p60 : 2.0); };
    return (terms(first) * step(second) + terms(second)) * step(third) + terms(third);
}

// The largest tile of destinations, all tiles alike, none of which reads more than `most` sources. At least 1.
inline int64_t fitting_tile(const Side& side, int64_t most) {
    const int64_t count = side.destinations();
    if (side.sources() <= most) return std::max<int64_t>(1, count);
    const Rule* rule = side.axis->rule();
    const int64_t room = most - side.longest();
    if (rule) {
        if (room < 0) return 1;
        // A step of one destination moves a window by `stride` and a cover by 1/stride, rounded either way.
        const int64_t tile = side.gradient ? std::max<int64_t>(0, room - 1) * rule->stride + 1 : room / rule->stride + 1;
        return std::clamp<int64_t>(tile, 1, std::max<int64_t>(1, count));
    }
    // Tried from every start, not only at multiples of the tile: tiles are cut further, and then begin anywhere.
    for (int64_t tile = count; tile > 1; tile = divide_up(tile, 2)) {
        int64_t widest = 0;
        for (int64_t first = 0; first + tile <= count && widest <= most; ++first)
            widest = std::max(widest, side.range(Range{first, first + tile}).size());
        if (widest <= most) return tile;
    }
    return 1;
}

// The smallest index reported by any worker, or -1.
class FirstIndex {
  public:
    void report(int64_t index) {
        int64_t known = first_.load(std::memory_order_relaxed);
        while (index < known && !first_.compare_exchange_weak(known, index, std::memory_order_relaxed)) {
        }
    }
    int64_t value() const {
        const int64_t first = first_.load();
        return first == INT64_MAX ? -1 : first;
    }

  private:
    std::atomic<int64_t> first_{INT64_MAX};
};

}  // namespace poolgrad::POOLGRAD_ISA
