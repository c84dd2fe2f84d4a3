// Maxima and winners of a box, row by row: as lines, in one pass or axis by axis, as it was chosen for the call.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Values of a row, turned, to another type: back to how they are stored.
template <class V, class To, class From>
void store_values(To* to, const From* from, int64_t count, Turn<V> sign) {
    each_column<V>(count, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
        constexpr int lanes = decltype(lanes_of)::value;
        store<V, lanes>(to + at, sign.template turn<lanes>(load<V, lanes>(from + at)));
    });
}

// Codes of planes side by side, each plane's to its index at(plane); `spare` has room for those of planes not there.
template <class S, class C, class At>
void store_plane_codes(void* winners, int bytes, const C* codes, int64_t columns, int there, C* spare, const At& at) {
    visit_winners<C, S>(winners, bytes, [&](const auto* typed) {
        using W = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
        W* to[kPlanes<C>];
        for (int p = 0; p < kPlanes<C>; ++p) to[p] = p < there ? const_cast<W*>(typed) + at(p) : reinterpret_cast<W*>(spare);
        store_planes<C, W>(to, codes, columns);
    });
}

// Makes rows of maxima for a box of outputs of one outer index (or kPlanes of them, side by side).
template <class S, class V, class C, bool coded>
class Best {
    using ByLines = Lines<S, V, C, coded>;
    using InOnePass = Direct<S, V, C, coded>;
    using InPasses = Passes<S, V, C, coded>;

  public:
    Best(const MaxCall& call, const MaxSpace& space, bool planes, bool bundles = false)
        : call_(call), space_(space), sign_(call, Type<S>()), lines_(call, space), way_(space, lines_, planes, bundles), direct_(call, space, way_),
          passes_(call, space, way_) {}

    int64_t run() const { return way_.side_by_side ? 1 : way_.run; }
    int64_t tile() const { return passes_.tile(); }
    int64_t block() const { return passes_.block(); }
    bool keeps_rows() const { return lines_.keeps_rows(); }
    // Elements that a sink is given at once.
    int64_t most() const { return passes() ? passes_.piece_size() : std::max(passes_.row_size(), ByLines::kRoom); }
    int planes() const { return way_.side_by_side ? kPlanes<V> : 1; }
    bool lines() const { return !kPlain<S, V> && way_.lines; }

    struct Rooms {
        Rooms(const Best& job, Arena& arena) : lines(job.lines_, arena), direct(job.direct_, arena), passes(job.passes_, arena) {
            const int64_t columns = !job.way_.side_by_side ? 0 : job.way_.bundled ? job.space_.output_at(1, 0, 0, 0) : job.way_.tile;
            spare = arena.take<S>(columns), spare_codes = arena.take<C>(columns);
        }
        typename ByLines::Rooms lines;
        typename InOnePass::Rooms direct;
        typename InPasses::Rooms passes;
        S* spare;  // room for results of planes that are not there
        C* spare_codes;
    };

    // sink(outer, d, h, count, at, length, values, codes) for every output row of the box, [width][inner], or `count` of them one after the
    // other, or for the elements of a row from `at` on: depth by depth, but for windows of several depths in blocks of heights.
    template <class Sink>
    void rows(Rooms& rooms, Range outers, const Box& box, const Sink& sink) const {
        if constexpr (!kPlain<S, V>)
            if (way_.lines) return as_lines(rooms, outers, box, sink);
        for (int64_t outer = outers.first; outer < outers.last; ++outer) carefully(rooms, outer, box, sink);
    }

    // Where all is found in one way, results may also go straight from there to where they belong.
    static constexpr bool kBundles = Way<S, V>::kBundles;
    bool direct() const { return way_.direct && !way_.lines; }
    bool bundled() const { return way_.bundled; }
    bool passes() const { return way_.passes(); }
    const InOnePass& in_one_pass() const { return direct_; }
    const InPasses& in_passes() const { return passes_; }

  private:
    template <class Sink>
    void as_lines(Rooms& rooms, Range outers, const Box& box, const Sink& sink) const {
        if (box.depth.empty() || box.height.empty() || box.width.empty()) return;  // no output reaches these inputs
        lines_.prepare(rooms.lines, box.width);
        // Small depths, and planes, are taken together.
        const int64_t high = box.height.size(), block = rooms.lines.block;
        const bool flat = lines_.slides() && high <= kSlideHeights && high == space_.height.output_size();
        const bool whole = flat && box.depth.size() == space_.depth.output_size();
        const int64_t deep = flat ? std::clamp<int64_t>(block / high, 1, box.depth.size()) : 1;
        const int64_t planes = whole && deep == box.depth.size() ? std::clamp<int64_t>(block / (high * deep), 1, outers.size()) : 1;
        const int64_t most = lines_.slides() ? std::min(block, kSlideHeights) : block;
        const auto next = [](Range now, int64_t step, Range all) { return Range{now.last, std::min(now.last + step, all.last)}; };
        for (Range o = next({0, outers.first}, planes, outers); !o.empty(); o = next(o, planes, outers))
            for (Range d = next({0, box.depth.first}, deep, box.depth); !d.empty(); d = next(d, deep, box.depth))
                for (Range h = next({0, box.height.first}, most, box.height); !h.empty(); h = next(h, most, box.height))
                    if (lines_.find(rooms.lines, o, d, h, box.width))
                        sink(o.first, d.first, h.first, o.size() * d.size() * h.size(), int64_t(0), box.width.size() * space_.inner,
                             rooms.lines.packed.values, rooms.lines.packed.codes);
                    else
                        for (int64_t outer = o.first; outer < o.last; ++outer)
                            carefully(rooms, outer, {box.outer, d, h, box.width, box.inner}, sink);
    }

    template <class Sink>
    void carefully(Rooms& rooms, int64_t outer, const Box& box, const Sink& sink) const {
        if constexpr (!kPlain<S, V>)
            if (way_.direct)
                return direct_.straight(rooms.direct, outer, box, [&](int64_t d, int64_t h, Range, const auto& search) {
                    const int64_t length = box.width.size() * box.inner.size();
                    search(rooms.direct.stored);
                    if (call_.expected || call_.values) store_values(rooms.direct.values, static_cast<const S*>(rooms.direct.stored), length, sign_);
                    sink(outer, d, h, 1, int64_t(0), length, rooms.direct.values, rooms.direct.codes);
                });
        passes_.run(
            rooms.passes, outer, box, passes_.as_found(),
            [&](int64_t, int64_t, int64_t i, int64_t) { return rooms.passes.values + i * passes_.piece_size(); },
            [&](int64_t d, int64_t h, int64_t at, int64_t length, V* values, C* codes) { sink(outer, d, h, 1, at, length, values, codes); });
    }

    const MaxCall& call_;
    const MaxSpace& space_;
    const Turn<V> sign_;
    const ByLines lines_;
    const Way<S, V> way_;
    const InOnePass direct_;
    const InPasses passes_;
};

}  // namespace poolgrad::POOLGRAD_ISA
