// Gradients of maxima. Every box of the destination has one owner, which adds the gradients of the outputs that reach it in ascending
// row-major order, from +0 on, and writes it once. Long runs that few windows cover are gathered: each covering output is asked whether
// its winner is this element (a vector comparison). Others are scattered into a tile that stays in the cache (at 27 covers
// scattering takes 0.7 of the time). Both add the same numbers in the same order. Gradients are selected, never multiplied.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class V, class C>
class MaxGradient {
    using Gather = MaxGather<S, V, C>;
    using A = MaxSum<S, V, C>;
    static constexpr bool can_gather = sizeof(A) == sizeof(C);
    static constexpr bool beside = sizeof(A) != sizeof(S);  // a scatter has to sum in another type
    static constexpr int64_t kMostTaps = Gather::kMostTaps;
    static constexpr int64_t kScatterStreamBytes = 32 << 20;  // sums made beside the result lose what streaming gains
    static constexpr int64_t kFoundBytes = 512 << 10;  // of winners that are found again, at once

  public:
    explicit MaxGradient(const MaxCall& call)
        : call_(call), space_(call.layout),
          picks_(can_gather && kWords<S, V> && taps() <= kMostTaps && space_.inner == 1 && !space_.width.rule() &&
                 space_.width.input_size() >= kLanes<C>),
          apart_(taps() == 1), zipped_(can_zip()), gather_(can_gather && taps() <= kMostTaps && (space_.inner >= least_run() || picks_ || zipped_)),
          winners_(call, space_, (!gather_ || zipped_) && few_outputs()) {}

    int64_t run() {
        Tiling tiling{{space_.outer, space_.depth.input_size(), space_.height.input_size(), space_.width.input_size(), space_.inner}, {}};
        if (tiling.empty()) return -1;
        MaxBoxes boxes;
        boxes.found = plan(tiling);
        const int64_t planes = winners_.planes();
        const int64_t result_bytes = tiling.elements() * int64_t(sizeof(S));
        const int64_t traffic = result_bytes * (winners_.from_input() ? 2 : 1) + space_.outputs() * (int64_t(sizeof(S)) + call_.winner_bytes);
        tiling.extent[0] = divide_up(tiling.extent[0], planes);
        const bool shared = !gather_ && !winners_.from_input();
        if (shared) share(tiling);
        balance(tiling, call_.workers, divide_up(traffic, result_bytes) * int64_t(sizeof(S)) * planes,
                shared ? 0 : gather_ ? 4 : taps() > kMostTaps ? 1 : 2);
        const Extent& tile = boxes.tile = tiling.tile;
        boxes.reached = reaching(space_.width, tile[3]);
        boxes.stream = gather_ ? is_streamed(traffic) : result_bytes >= kScatterStreamBytes;
        // Small boxes of large results are summed beside them too, and then streamed.
        boxes.beside = beside || (boxes.stream && std::is_same_v<A, S> && tile[1] * tile[2] * tile[3] * tile[4] <= 16 << 10);
        if constexpr (can_gather) {
            if (zipped_) return run_by(MaxZip<S, V, C>(winners_, boxes), tiling, traffic);
            if (gather_) return run_by(Gather(winners_, boxes, picks_, apart_), tiling, traffic);
        }
        if constexpr (!kPlain<S, V>) {
            const bool whole = tile[1] == tiling.extent[1] && tile[2] == tiling.extent[2] && tile[3] == tiling.extent[3] &&
                               tile[4] == tiling.extent[4];
            if (whole && MaxPlanes<S, V, C>::usable(winners_, boxes)) return run_by(MaxPlanes<S, V, C>(winners_, boxes), tiling, traffic);
        }
        return run_by(MaxScatter<S, V, C>(winners_, boxes), tiling, traffic);
    }

  private:
    template <class Way>
    int64_t run_by(const Way& way, const Tiling& tiling, int64_t traffic) const {
        using Rooms = typename Way::Rooms;
        Arena measure(nullptr);
        Rooms(way, measure);
        run_boxes(tiling, call_.workers, traffic, measure.used(), [&](const Box& box, std::byte* scratch) {
            Arena arena(scratch);
            Rooms rooms(way, arena);
            way.compute(rooms, box);
        });
        return winners_.first_bad();
    }

    // Winners of all outputs of kPlanes planes fit where those found are kept. In doubles: of empty arrays the sizes may be anything.
    bool few_outputs() const {
        const double outputs = double(space_.depth.output_size()) * double(space_.height.output_size()) * double(space_.width.output_size());
        return outputs * kPlanes<V> * call_.winner_bytes <= double(kFoundBytes);
    }
    bool can_zip() const {
        const Rule* rule = space_.width.rule();
        const int64_t least = std::max(kLanes<LoneSum<S>>, 24);  // outputs of a row; fewer are scattered in half the time
        return can_gather && apart_ && space_.inner == 1 && call_.winner_bytes == 1 && rule && rule->window == rule->stride &&
               (rule->stride == 2 || rule->stride == 4) && rule->output_size >= least;
    }
    // Elements of a run that is gathered: that costs most for each run of the result, scattering for each element of the outputs, and more
    // of floats that have to be converted. Outputs whose windows do not overlap are dealt out, in an eighth of the time of other gathers. Runs
    // of small integers that fill no register are slow to gather.
    int64_t least_run() const {
        constexpr bool small_integers = std::is_integral_v<S> && sizeof(S) <= 2;
        const bool dealt = apart_ && (!small_integers || call_.winner_bytes == 1);
        if (dealt && sizeof(S) <= 2) return small_integers ? std::max(16, kLanes<LoneSum<S>>) : 16;
        constexpr double each = std::is_same_v<S, Bfloat> ? 32 : sizeof(S) <= 2 ? 16 : 12 * sizeof(S);
        double inputs = dealt ? 0.125 : 1, outputs = 1;
        for (const Axis* axis : {&space_.depth, &space_.height, &space_.width})
            inputs *= double(axis->input_size()), outputs *= double(axis->output_size());
        return int64_t(std::clamp(each * inputs / std::max(1.0, outputs), small_integers ? 32.0 : 16.0, 1024.0));
    }
    // The most outputs that cover an element.
    int64_t taps() const {
        const auto bounded = [](const Axis& axis) { return std::min(axis.longest_cover(), kMostTaps + 1); };
        return bounded(space_.depth) * bounded(space_.height) * bounded(space_.width);
    }

    // The tile; returns how many winners of a box are found at once, for each inner element.
    int64_t plan(Tiling& tiling) const {
        const bool from_input = winners_.from_input();
        const int64_t planes = winners_.planes();
        const int64_t most_run = from_input && planes == 1 ? winners_.finder().run() : std::max<int64_t>(1024, 4096 / int64_t(sizeof(S)));
        Extent& tile = tiling.tile;
        if (gather_) {
            tile = {1, tiling.extent[1], tiling.extent[2], 1, std::min(space_.inner, most_run)};
            // Windows of long runs are searched once more for each box that they reach: rather some columns of these at once.
            const int64_t least = from_input && call_.winner_bytes == 1 && !apart_ ? 16 * space_.width.longest_cover() : 1;
            tile[3] = std::clamp<int64_t>(std::max((picks_ ? 2048 : zipped_ ? 4096 : 16384) / tile[4], least), 1, tiling.extent[3]);
        } else {
            // All of the space, rather than boxes that share outputs. Runs are long: 192 elements took a quarter of the time of 32.
            // Small floats are summed beside the result, in 1 MiB.
            tile = {1, tiling.extent[1], tiling.extent[2], tiling.extent[3], std::min(space_.inner, most_run)};
            for (std::size_t i = 1; i < 4; ++i)
                while (beside && tile[i] > 1 && tile[1] * tile[2] * tile[3] * tile[4] > 256 << 10) tile[i] = divide_up(tile[i], 2);
        }
        if (!from_input) return 0;
        // A gather needs all winners of a box at once, a scatter takes them in portions.
        // Portions of several depths share what is found along them: then these are larger, where sums need no room.
        const int64_t bytes = gather_ || beside || !winners_.finder().passes() || space_.depth.longest_cover() == 1 ? kFoundBytes : 4 * kFoundBytes;
        const int64_t room = std::max<int64_t>(1, bytes / (tile[4] * planes * call_.winner_bytes));
        if (gather_)
            // Ends at the latest with a single element, which at most kMostTaps outputs cover: fewer than there is room for.
            for (std::size_t i = 1; i < 4;) {
                if (reaching(space_.width, tile[3]) * reaching(space_.height, tile[2]) * reaching(space_.depth, tile[1]) <= room) break;
                if (tile[i] > 1)
                    tile[i] = divide_up(tile[i], 2);
                else
                    ++i;
            }
        return room;
    }
    // Cuts planes that are scattered as seldom as gives workers equal shares, and where the fewest outputs reach two boxes: these are looked at
    // twice. Where those would be many, between elements of runs.
    void share(Tiling& tiling) const {
        const int64_t workers = call_.workers, items = tiling.items();
        int64_t pieces = 1;
        while (pieces < workers && 7 * divide_up(items * pieces, workers) * workers > 8 * items * pieces) ++pieces;
        if (pieces == 1 || tiling.elements() / items * int64_t(sizeof(S)) < 64 << 10) return;
        std::size_t best = 0;
        double least = 0.25;  // of the outputs that are looked at twice
        const Axis* axes[] = {&space_.depth, &space_.height, &space_.width};
        for (std::size_t i = 0; i < 3; ++i) {
            const double each = i == 2 ? 8 : 1;  // those that are cut within rows take longer
            const double twice = each * double((axes[i]->longest_cover() - 1) * (pieces - 1)) / double(axes[i]->output_size());
            if (tiling.tile[i + 1] >= pieces && twice < least) best = i + 1, least = twice;
        }
        if (!best && tiling.tile[4] >= 32 * pieces) best = 4;
        if (best) tiling.tile[best] = divide_up(tiling.tile[best], pieces);
    }
    // At most so many outputs reach a tile of so many inputs, wherever it begins.
    static int64_t reaching(const Axis& axis, int64_t tile) {
        if (const Rule* rule = axis.rule()) return std::min(axis.output_size(), axis.longest_cover() + divide_up(tile - 1, rule->stride));
        int64_t most = 1;
        for (int64_t first = 0; first + tile <= axis.input_size(); ++first)
            most = std::max(most, Side{&axis, true}.range(Range{first, first + tile}).size());
        return most;
    }

    const MaxCall& call_;
    const MaxSpace space_;
    const bool picks_;   // inner is 1 and width irregular: a gather picks a register of destinations at a time
    const bool apart_;   // no windows overlap
    const bool zipped_;  // these have inner runs of 1 and are as long as their stride: a gather writes registers of them
    const bool gather_;
    WinnerRows<S, V, C> winners_;
};

}  // namespace poolgrad::POOLGRAD_ISA
