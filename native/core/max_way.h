// How the maxima of a call are found: chosen from its sizes alone, and from whether they can be found as lines.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class V>
struct Way {
    static constexpr bool kBundles = std::is_same_v<S, V> && kWords<S, V>;  // compiled only where it needs no code of its own
    static constexpr int64_t kDirect = 64, kDirectAnyway = 9;  // elements of a window searched in one pass
    static constexpr int64_t kColumns = 512, kBundle = 1024;  // source columns of planes side by side; of whole planes
    static constexpr int64_t kRoom = (8 << 10) / int64_t(sizeof(V));  // elements of a row

    template <class Finder>
    Way(const MaxSpace& space, const Finder& finder, bool planes, bool bundles) : lines(finder.usable()) {
        const Rule* rule = space.width.rule();
        const int64_t elements = space.depth.longest_window() * space.height.longest_window() * space.width.longest_window();
        // Longer rows had better stay rows, unless there is but one to begin and end with.
        const int64_t rows = space.depth.output_size() * space.height.output_size();
        bundled = kBundles && bundles && space.inner == 1 && space.outer >= kPlanes<V> / 2 && elements <= kDirectAnyway &&
                  std::max(space.input_at(1, 0, 0, 0), space.output_at(1, 0, 0, 0)) <= kBundle &&
                  (finder.slides() ? 2 * space.width.output_size() <= kLanes<V>
                                   : !lines || space.width.output_size() < 14 || (rows == 1 && rule && rule->stride > 1));
        side_by_side = bundled || (kWords<S, V> && planes && !lines && space.inner == 1 && space.outer >= kPlanes<V> / 2 &&
                                   space.width.longest_window() <= 64 && (!rule || space.width.output_size() < 32 || rule->stride > 4));
        const int64_t inner = side_by_side ? kPlanes<V> : space.inner;
        run = std::clamp<int64_t>(inner, 1, kRoom);
        tile = std::clamp<int64_t>(kRoom / run, 1, std::max<int64_t>(1, space.width.output_size()));
        line = !kPlain<S, V> && rule && !side_by_side && run == space.inner && inner < 16 && rule->stride <= 8 && rule->window <= 64 &&
               rule->window <= rule->input_size && tile > 1;
        if (lines) tile = std::min(tile, finder.tile());
        if (bundled)
            tile = space.width.output_size();
        else if (side_by_side)
            tile = std::min(tile, fitting_tile(Side{&space.width, false}, kColumns));
        // Windows that do not overlap share nothing, and of small ones it is not worth it: they are searched in one pass, unless that
        // looks at many more elements than going axis by axis, where every row that windows have in common is looked at once.
        const auto is_apart = [](const Axis& axis) { return axis.longest_cover() == 1; };
        apart = is_apart(space.depth) && is_apart(space.height) && is_apart(space.width);
        direct = !kPlain<S, V> && !line && !side_by_side && elements <= kDirect &&
                 (elements <= kDirectAnyway || double(elements) <= 1.3 * by_axes(space.width, space.height, space.depth));
    }

    bool one_pass() const { return direct || bundled; }
    bool passes() const { return !lines && !side_by_side && !direct; }

    bool lines;         // as lines (max_lines.h): what these leave is found as said by the others
    bool bundled;       // small planes whole and side by side, in one pass (max_direct.h)
    bool side_by_side;  // kPlanes of them, with rows of [width][plane]
    bool line;          // along width all windows of a row at once
    bool direct;        // in one pass (max_direct.h), else axis by axis (max_passes.h)
    bool apart;         // no two windows overlap
    int64_t run, tile;  // elements of inner, outputs of width: of a row that is made at once
};

}  // namespace poolgrad::POOLGRAD_ISA
