// Gradients of maxima. Every box of the destination has one owner, which adds the gradients of the outputs that reach it in ascending
// row-major order, from +0 on, and writes it once. Where few windows cover an element it gathers: each covering output is asked whether
// its winner is this element (a vector comparison). Where many do it scatters into a tile that stays in the cache (at 27 covers
// scattering takes 0.7 of the time). Both add the same numbers in the same order. Gradients are selected, never multiplied.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Codes of some outputs: at index(d, h, w), each followed by those of its inner run.
struct CodeView {
    const void* data;
    int bytes;
    int64_t origin, pitch_depth, pitch_height, pitch_width;
    int64_t index(int64_t d, int64_t h, int64_t w) const { return origin + d * pitch_depth + h * pitch_height + w * pitch_width; }
};

// Whether codes are all among the first `first` ones; says no where it does not know.
template <class W>
bool all_among(const W* codes, int64_t count, int64_t first) {
    if (first == 0 || count < kLanes<W>) return false;
    const auto most = W(first - 1);
    Odd<W> above;
    each_column<W>(count, [&](auto lanes, int64_t at) POOLGRAD_LAMBDA {
        above.template note<lanes()>(load<W, lanes()>(codes + at) > spread<W, lanes()>(most));
    });
    return !above.seen();
}

// Whether bytes all lie in one of a few ranges `length` long; says no where it does not know.
inline bool all_in_ranges(const uint8_t* codes, int64_t count, const uint8_t* firsts, int ranges, uint8_t length) {
    constexpr int lanes = kLanes<uint8_t>;
    if (count < lanes) return false;
    Odd<uint8_t> outside;
    for (int64_t next = 0; next < count; next += lanes) {
        const auto code = load<uint8_t, lanes>(codes + std::min(next, count - lanes));
        Mask<uint8_t, lanes> inside{};
        for (int i = 0; i < ranges; ++i) inside |= code - spread<uint8_t, lanes>(firsts[i]) < spread<uint8_t, lanes>(length);
        outside.note<lanes>(~inside);
    }
    return !outside.seen();
}

template <class S, class V, class C>
class MaxGradient {
    // Integers wrap: sums of them in lanes as large as codes, where it can be.
    using A = std::conditional_t<std::is_integral_v<S>, std::conditional_t<kPlain<S, V>, Accumulator<int32_t>, C>, Accumulator<S>>;
    static constexpr bool can_gather = sizeof(A) == sizeof(C);
    static constexpr bool beside = sizeof(A) != sizeof(S);  // a scatter has to sum in another type
    static constexpr int64_t kMostTaps = 16;
    static constexpr int kStreams = 4;
    static constexpr int64_t kPortion = 8192;  // outputs of a row that are scattered together
    static constexpr int64_t kScatterStreamBytes = 32 << 20;  // sums made beside the result lose what streaming gains
    static constexpr int64_t kPlaneOutputs = 4096;  // of planes that are scattered as one
    static constexpr int64_t kTogether = 4, kTogetherInputs = 16 << 10;  // planes at once, and how large
    static constexpr int64_t kFoundBytes = 512 << 10;  // of winners that are found again, at once
    static constexpr int64_t kCheckedCodes = 4096;  // of rows that are checked at once
    using Finder = Best<S, V, C, true>;
    // Lanes as large as what is stored: enough for sums of one term.
    using Own = std::conditional_t<is_small_float<S>, uint16_t, Accumulator<S>>;
    using OwnCode = std::make_unsigned_t<typename BitsOf<sizeof(Own)>::type>;

  public:
    explicit MaxGradient(const MaxCall& call)
        : call_(call), space_(call.layout), sign_(call, Type<S>()), decode_(space_), from_input_(call.source != nullptr),
          picks_(can_gather && kWords<S, V> && taps() <= kMostTaps && space_.inner == 1 && !space_.width.rule() && space_.width.input_size() >= kLanes<C>),
          apart_(taps() == 1), zipped_(can_zip()), gather_(can_gather && taps() <= kMostTaps && (space_.inner >= least_run() || picks_ || zipped_)),
          finder_(call, space_, (!gather_ || zipped_) && few_outputs()) {}

    int64_t run() {
        Tiling tiling{{space_.outer, space_.depth.input_size(), space_.height.input_size(), space_.width.input_size(), space_.inner}, {}};
        if (tiling.empty()) return -1;
        plan(tiling);
        const int64_t planes = from_input_ ? finder_.planes() : 1;
        const int64_t result_bytes = tiling.elements() * int64_t(sizeof(S));
        const int64_t traffic = result_bytes * (from_input_ ? 2 : 1) + space_.outputs() * (int64_t(sizeof(S)) + call_.winner_bytes);
        tiling.extent[0] = divide_up(tiling.extent[0], planes);
        balance(tiling, call_.workers, divide_up(traffic, result_bytes) * int64_t(sizeof(S)) * planes, gather_ ? 4 : taps() > kMostTaps ? 1 : 2);
        stream_ = gather_ ? is_streamed(traffic) : result_bytes >= kScatterStreamBytes;
        tile_ = tiling.tile;
        reached_ = reaching(width_(), tile_[3]);
        // Small boxes of large results are summed beside them too, and then streamed.
        beside_ = beside || (stream_ && std::is_same_v<A, S> && tile_[1] * tile_[2] * tile_[3] * tile_[4] <= 16 << 10);
        const bool whole = tile_[1] == tiling.extent[1] && tile_[2] == tiling.extent[2] && tile_[3] == tiling.extent[3];
        together_ = space_.input_at(1, 0, 0, 0) <= kTogetherInputs ? kTogether : 1;
        planewise_ = !kPlain<S, V> && !gather_ && space_.inner == 1 && whole && space_.input_at(1, 0, 0, 0) <= 1 << 20 && decode_.codes() &&
                     outputs_each() <= kPlaneOutputs && (!from_input_ || found_ >= outputs_each());
        const Scratch memory(planewise_ ? plane_tables(nullptr) : 0);
        if (planewise_) plane_tables(memory.data());
        Arena measure(nullptr);
        Rooms(*this, measure);
        run_boxes(tiling, call_.workers, traffic, measure.used(), [this](const Box& box, std::byte* scratch) {
            Arena arena(scratch);
            Rooms rooms(*this, arena);
            compute(rooms, box);
        });
        return bad_.value();
    }

  private:
    const Side depth_() const { return {&space_.depth, true}; }
    const Side height_() const { return {&space_.height, true}; }
    const Side width_() const { return {&space_.width, true}; }

    // Winners of all outputs of kPlanes planes fit where those found are kept. In doubles: of empty arrays the sizes may be anything.
    bool few_outputs() const {
        const double outputs = double(space_.depth.output_size()) * double(space_.height.output_size()) * double(space_.width.output_size());
        return outputs * kPlanes<V> * call_.winner_bytes <= double(kFoundBytes);
    }
    // How many codes windows of these lengths have, if they are the first ones; else 0.
    int64_t first_codes(int64_t depth, int64_t height, int64_t width) const {
        const auto step = [this](std::size_t axis) { return int64_t(space_.step[axis]); };
        const bool rows_follow = height == 1 || step(1) == width, planes_follow = depth == 1 || step(0) == height * width;
        return decode_.codes() && rows_follow && planes_follow ? depth * height * width : 0;
    }
    // No window is cut off.
    bool all_whole() const {
        bool result = true;
        for (const Axis* axis : {&space_.depth, &space_.height, &space_.width}) {
            const Rule* rule = axis->rule();
            result = result && rule && rule->before == 0 && (rule->output_size - 1) * rule->stride + rule->window <= rule->input_size;
        }
        return result;
    }
    bool can_zip() const {
        const Rule* rule = space_.width.rule();
        const int64_t least = std::max(kLanes<Own>, 24);  // outputs of a row; fewer are scattered in half the time
        return can_gather && apart_ && space_.inner == 1 && call_.winner_bytes == 1 && rule && rule->window == rule->stride &&
               (rule->stride == 2 || rule->stride == 4) && rule->output_size >= least;
    }
    // Elements of a run that is gathered: that costs most for each run of the result, scattering for each element of the outputs. Of small
    // integers scattering costs less, and runs of them that fill no register cost more.
    int64_t least_run() const {
        if (!std::is_integral_v<S> || sizeof(S) > 2) return 16;
        if (apart_ && call_.winner_bytes == 1) return std::max(16, kLanes<Own>);
        double inputs = 1, outputs = 1;
        for (const Axis* axis : {&space_.depth, &space_.height, &space_.width})
            inputs *= double(axis->input_size()), outputs *= double(axis->output_size());
        return int64_t(std::clamp(16 * inputs / std::max(1.0, outputs), 32.0, 1024.0));
    }
    int64_t outputs_each() const { return space_.output_at(1, 0, 0, 0) / std::max<int64_t>(1, space_.inner); }
    // The most outputs that cover an element.
    int64_t taps() const {
        const auto bounded = [](const Side& side) { return std::min(side.longest(), kMostTaps + 1); };
        return bounded(depth_()) * bounded(height_()) * bounded(width_());
    }

    void plan(Tiling& tiling) {
        const int64_t planes = from_input_ ? finder_.planes() : 1;
        const int64_t most_run = from_input_ && planes == 1 ? finder_.run() : std::max<int64_t>(1024, 4096 / int64_t(sizeof(S)));
        Extent& tile = tiling.tile;
        if (gather_) {
            tile = {1, tiling.extent[1], tiling.extent[2], 1, std::min(space_.inner, most_run)};
            // Windows of long runs are searched once more for each box that they reach: rather some columns of these at once.
            const int64_t least = from_input_ && call_.winner_bytes == 1 && !apart_ ? 16 * width_().longest() : 1;
            tile[3] = std::clamp<int64_t>(std::max((picks_ ? 2048 : zipped_ ? 4096 : 8192) / tile[4], least), 1, tiling.extent[3]);
        } else {
            // All of the space, rather than boxes that share outputs. Runs are long: 192 elements took a quarter of the time of 32.
            // Small floats are summed beside the result, in 1 MiB.
            tile = {1, tiling.extent[1], tiling.extent[2], tiling.extent[3], std::min(space_.inner, most_run)};
            for (std::size_t i = 1; i < 4; ++i)
                while (beside && tile[i] > 1 && tile[1] * tile[2] * tile[3] * tile[4] > 256 << 10) tile[i] = divide_up(tile[i], 2);
        }
        if (!from_input_) return;
        // A gather needs all winners of a box at once, a scatter takes them in portions.
        // Portions of several depths share what is found along them: then these are larger, where sums need no room.
        const int64_t bytes = gather_ || beside || !finder_.passes() || space_.depth.longest_cover() == 1 ? kFoundBytes : 4 * kFoundBytes;
        const int64_t room = std::max<int64_t>(1, bytes / (tile[4] * planes * call_.winner_bytes));
        if (gather_)
            // Ends at the latest with a single element, which at most kMostTaps outputs cover: fewer than there is room for.
            for (std::size_t i = 1; i < 4;) {
                const int64_t across = reaching(width_(), tile[3]), down = reaching(height_(), tile[2]), deep = reaching(depth_(), tile[1]);
                if (across * down * deep <= room) break;
                if (tile[i] > 1)
                    tile[i] = divide_up(tile[i], 2);
                else
                    ++i;
            }
        found_ = room;
    }
    // At most so many outputs reach a tile of so many inputs, wherever it begins.
    static int64_t reaching(const Side& side, int64_t tile) {
        if (const Rule* rule = side.axis->rule()) return std::min(side.sources(), side.longest() + divide_up(tile - 1, rule->stride));
        int64_t most = 1;
        for (int64_t first = 0; first + tile <= side.destinations(); ++first)
            most = std::max(most, side.range(Range{first, first + tile}).size());
        return most;
    }

    struct Rooms {
        Rooms(const MaxGradient& job, Arena& arena) {
            const int64_t run = job.tile_[4], tile = job.tile_[3];
            const int64_t most_outputs = job.gather_ ? job.reached_ : std::min(job.reached_, kPortion);
            for (int64_t** table : {&starts, &lengths, &alike}) *table = arena.take<int64_t>(most_outputs);
            if (job.from_input_) {
                finder = {typename Finder::Rooms(job.finder_, arena)};
                found = arena.take<std::byte>(job.found_ * run * job.finder_.planes() * job.call_.winner_bytes);
            }
            if (job.gather_) {
                row_size = most_outputs * run + (job.picks_ ? Picks<C>::kSlack : 0);
                const int64_t rows = job.depth_().longest() * job.height_().longest();  // that reach a row of destinations
                if (job.picks_ || job.call_.winner_bytes > 1) code_rows = arena.take<C>(rows * row_size);
                if (job.picks_) {
                    grad_rows = arena.take<C>(rows * row_size);
                    picks = Picks<C>(arena, tile);
                }
                if (!job.zipped_) {
                    covers = arena.take<Range>(tile);
                    column_codes = arena.take<C>(job.width_().longest() * (tile + kLanes<C>));
                }
                row_holds = arena.take<int64_t>(kMostTaps);
                if (job.stream_) staging = arena.take<S>(job.staging());
            } else {
                sums = arena.take<A>(job.beside_ ? job.tile_[1] * job.tile_[2] * tile * run * (job.planewise_ ? job.together_ : 1) : 0);
                if (job.decode_.codes()) offsets = arena.take<int64_t>(2 * job.decode_.codes());
                // Small windows change their winners too often to wait for each other.
                const bool streams = !kPlain<S, V> && job.space_.inner == 1 && job.decode_.codes() && !job.decode_.small() &&
                                     job.space_.input_at(1, 0, 0, 0) <= INT32_MAX;
                if (streams) stream_offsets = arena.take<int32_t>(kStreams * job.decode_.codes());
                std::fill_n(stream_inside, kStreams, std::pair<Range, Range>{{-1, -1}, {-1, -1}});
                if (run == 1 && job.decode_.small()) column_masks = arena.take<uint32_t>(most_outputs);
                if (run == 1 && job.decode_.codes() && !job.decode_.small()) column_lengths = arena.take<uint32_t>(most_outputs);
            }
        }
        Range outputs{0, 0};              // of width, whose windows start at `starts` and have `lengths`
        int64_t *starts, *lengths, *alike;  // alike: the first of those after it whose window has another length
        int64_t row_size = 0;             // codes of one row
        int64_t* row_holds = nullptr;     // (d, h) of code_rows
        uint32_t masks[33];               // codes that windows of some length have, for some lengths of depth and height
        int64_t masks_of[2] = {0, 0};
        std::optional<typename Finder::Rooms> finder;
        std::byte* found = nullptr;
        int64_t found_from = 0;  // the first plane of these
        S* staging = nullptr;
        C *code_rows = nullptr, *grad_rows = nullptr;
        Picks<C> picks;             // of destinations from output rows
        Range picked{0, 0};         // these destinations
        Range* covers = nullptr;    // the outputs that reach each
        C* column_codes = nullptr;  // of a destination in the window of its t-th output, t-th row by t-th row
        A* sums = nullptr;
        int64_t* offsets = nullptr;        // of codes, in the sums; then the same with -1 for those outside the box
        int32_t* stream_offsets = nullptr;
        std::pair<Range, Range> stream_inside[kStreams];  // what they are of
        // For inner runs of 1: masks of the windows' lengths, or one less than these.
        uint32_t *column_masks = nullptr, *column_lengths = nullptr;
    };
    // What a writer is given at once: rows of windows apart, or runs of a row.
    int64_t most_written() const {
        return apart_ || picks_ ? tile_[3] * tile_[4] : std::max<int64_t>(tile_[4], 1024);
    }
    int64_t staging() const { return most_written() + 512 / int64_t(sizeof(S)); }

    void compute(Rooms& rooms, const Box& box) {
        const Range ds = depth_().range(box.depth), hs = height_().range(box.height), ws = width_().range(box.width);
        if (gather_) prepare(rooms, ws);
        if constexpr (can_gather)
            if (gather_ && !zipped_) prepare_columns(rooms, box.width, ws);
        Writer<S> writer(static_cast<S*>(call_.destination), gather_ ? rooms.staging : nullptr, staging());
        const int planes = from_input_ ? finder_.planes() : 1;
        const Box outputs{{}, ds, hs, ws, box.inner};
        if (planewise_ && !from_input_) {
            for (int64_t outer = box.outer.first; outer < box.outer.last; outer += together_)
                scatter_planes(rooms, outer, std::min(together_, box.outer.last - outer), space_.output_at(outer, 0, 0, 0));
            return;
        }
        // Small planes are searched together.
        const int64_t each = std::max<int64_t>(1, outputs_each());
        const int64_t searched = from_input_ && planewise_ && planes == 1 ? std::clamp<int64_t>(kPlaneOutputs / each, 1, found_ / each) : 1;
        for (Range groups{0, box.outer.first}; groups.last < box.outer.last;) {
            groups = {groups.last, std::min(groups.last + searched, box.outer.last)};
            if (from_input_ && (gather_ || planewise_ || planes > 1)) find(rooms, groups, outputs);
            const int64_t last = std::min(groups.last * planes, space_.outer);
            for (int64_t outer = groups.first * planes, count = 1; outer < last; outer += count) {
                const CodeView codes = view(rooms, outer, outputs);
                if constexpr (can_gather) {
                    if (zipped_)
                        zip_rows(rooms, writer, box, outer, ws, codes);
                    else if (gather_)
                        gather(rooms, writer, box, outer, ws, codes);
                    if (gather_) continue;
                }
                if (planewise_)
                    count = std::min(together_, last - outer), scatter_planes(rooms, outer, count, codes.index(ds.first, hs.first, ws.first));
                else
                    scatter(rooms, box, outer, planes, outputs);
            }
        }
        writer.finish();
    }

    // Windows of these outputs of width.
    void prepare(Rooms& rooms, Range outputs) const {
        if (rooms.outputs == outputs) return;
        rooms.outputs = outputs, rooms.masks_of[0] = 0;
        for (int64_t w = outputs.first; w < outputs.last; ++w) {
            const Range window = space_.width.window(w);
            rooms.starts[w - outputs.first] = window.first, rooms.lengths[w - outputs.first] = window.size();
            if (rooms.column_lengths) rooms.column_lengths[w - outputs.first] = uint32_t(window.size() - 1);
        }
        for (int64_t i = outputs.size(); i-- > 0;)
            rooms.alike[i] = i + 1 < outputs.size() && rooms.lengths[i] == rooms.lengths[i + 1] ? rooms.alike[i + 1] : i + 1;
    }

    // The winners of a box of outputs: those given, or those found.
    CodeView view(const Rooms& rooms, int64_t outer, const Box& outputs) const {
        if (!from_input_)
            return {call_.winners, call_.winner_bytes, space_.output_at(outer, 0, 0, 0) + outputs.inner.first,
                    space_.output_at(0, 1, 0, 0), space_.output_at(0, 0, 1, 0), space_.inner};
        const int64_t run = outputs.inner.size(), height = outputs.width.size() * run, depth = outputs.height.size() * height;
        const int64_t before = outputs.depth.first * depth + outputs.height.first * height + outputs.width.first * run;
        return {rooms.found, call_.winner_bytes, (outer - rooms.found_from) * outputs.depth.size() * depth - before, depth, height, run};
    }

    // Finds the winners of some outputs, and compares the maxima with those expected.
    void find(Rooms& rooms, Range groups, const Box& outputs) {
        rooms.found_from = groups.first * finder_.planes();
        for (Range part{outputs.width.first, 0}; part.first < outputs.width.last; part.first = part.last) {
            part.last = std::min(part.first + finder_.tile(), outputs.width.last);
            const Box box{{}, outputs.depth, outputs.height, part, outputs.inner};
            finder_.rows(*rooms.finder, groups, box,
                         [&](int64_t group, int64_t d, int64_t h, int64_t count, int64_t at, int64_t length, const V* values, const C* codes) {
                             // Whole rows lie one after the other.
                             const int64_t rows = part.size() == space_.width.output_size() ? 1 : count, joined = count / rows * length;
                             for (int64_t i = 0; i < rows; ++i)
                                 keep(rooms, group, outputs, d, h + i, part.first, at, joined, values + i * length, codes + i * length);
                         });
        }
    }
    // Of a row of outputs from `first` on, or of kPlanes side by side, the elements from `at` on.
    void keep(Rooms& rooms, int64_t group, const Box& outputs, int64_t d, int64_t h, int64_t first, int64_t at, int64_t length,
              const V* values, const C* codes) {
        const int planes = finder_.planes(), there = int(std::min<int64_t>(planes, space_.outer - group * planes));
        const int64_t each = planes > 1 ? length / planes : length;
        const auto to = [&](int p) { return view(rooms, group * planes + p, outputs).index(d, h, first); };
        if constexpr (kWords<S, V>)
            if (planes > 1)
                store_plane_codes<S>(rooms.found, call_.winner_bytes, codes, each, there, rooms.finder->spare_codes, to);
        if (planes == 1)
            write_codes<S>(rooms.found, call_.winner_bytes, to(0) + at, codes, length);
        for (int p = 0; call_.expected && p < there; ++p)
            compare(values + (planes > 1 ? p : 0), planes, outputs.inner.size(), at, each,
                    space_.output_at(group * planes + p, d, h, first) + outputs.inner.first);
    }
    // Elements of a row that begins at `row`, `run` of each column; the values lie `pitch` apart.
    void compare(const V* values, int64_t pitch, int64_t run, int64_t at, int64_t count, int64_t row) {
        if (pitch == 1 && run == space_.inner && all_expected(values, count, row + at)) return;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t index = row + (at + i) / run * space_.inner + (at + i) % run;
            const V expected = load<V, 1>(static_cast<const S*>(call_.expected) + index), found = sign_.template turn<1>(values[i * pitch]);
            if (!(found == expected || (found != found && expected != expected))) bad_.report(index);
        }
    }

    bool all_expected(const V* values, int64_t count, int64_t at) const {
        const Turn<V> sign = sign_;
        Odd<V> odd;
        each_column<V>(count, [&](auto lanes_of, int64_t i) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            const auto expected = load<V, lanes>(static_cast<const S*>(call_.expected) + at + i);
            const auto found = sign.template turn<lanes>(load<V, lanes>(values + i));
            const auto other = (found != expected) & ((found == found) | (expected == expected));
            if constexpr (lanes == 1)
                odd.one |= bool(other);
            else
                odd.many |= other;
        });
        return !odd.seen();
    }

    // to <- the codes of one output row.
    void read_row(Rooms& rooms, const CodeView& codes, int64_t outer, int64_t d, int64_t h, Range outputs, Range inner, C* to) {
        const int64_t run = inner.size();
        const bool whole = codes.pitch_width == run;
        for (int64_t w = outputs.first; w < outputs.last; w += whole ? outputs.size() : 1)
            read_codes<S>(to + (w - outputs.first) * run, codes.data, codes.bytes, codes.index(d, h, w), whole ? outputs.size() * run : run);
        check(rooms, static_cast<const C*>(to), run, outer, d, h, outputs, inner);
    }

    // Reports codes that do not lie in their window; those found are right. Returns whether all do.
    template <class W>
    bool check(Rooms& rooms, const W* codes, int64_t pitch, int64_t outer, int64_t d, int64_t h, Range outputs, Range inner) {
        if (from_input_) return true;
        const Range depth = space_.depth.window(d), height = space_.height.window(h);
        const int64_t run = inner.size();
        bool good = true;
        if (decode_.small() && (rooms.masks_of[0] != depth.size() || rooms.masks_of[1] != height.size())) {
            for (int64_t length = 1; length <= space_.width.longest_window(); ++length)
                rooms.masks[length] = decode_.mask(depth.size(), height.size(), length);
            rooms.masks_of[0] = depth.size(), rooms.masks_of[1] = height.size();
            for (int64_t w = 0; rooms.column_masks && w < rooms.outputs.size(); ++w) rooms.column_masks[w] = rooms.masks[rooms.lengths[w]];
        }
        if (rooms.column_masks && all_in_each(codes, outputs.size(), rooms.column_masks + (outputs.first - rooms.outputs.first))) return true;
        if (rooms.column_lengths && pitch == 1) {  // of short rows, many are clipped
            const uint32_t rest = Decoder::pack_lengths(depth.size(), height.size(), 1), *its_lengths = rooms.column_lengths + (outputs.first - rooms.outputs.first);
            if (decode_.all_inside(codes, outputs.size(), [=](auto lanes, int64_t at) POOLGRAD_LAMBDA {
                    return load<uint32_t, lanes()>(its_lengths + at) + spread<uint32_t, lanes()>(rest);
                }))
                return true;
        }
        // Of windows that have several ranges of codes, where these begin.
        constexpr int most_ranges = 32;
        uint8_t ranges[most_ranges];
        int range_count = 0;
        if (sizeof(W) == 1 && !decode_.small() && decode_.codes() && depth.size() * height.size() <= most_ranges)
            for (int64_t z = 0; z < depth.size(); ++z)
                for (int64_t y = 0; y < height.size(); ++y)
                    ranges[range_count++] = uint8_t(uint64_t(z) * space_.step[0] + uint64_t(y) * space_.step[1]);
        const int64_t before = outputs.first - rooms.outputs.first, *lengths = rooms.lengths + before;
        for (int64_t w = 0, last; w < outputs.size(); w = last) {
            // Windows of the same length have the same codes.
            last = pitch == run ? std::min(rooms.alike[before + w] - before, outputs.size()) : w + 1;
            const W* row = codes + w * pitch;
            if constexpr (sizeof(W) <= 2)
                if (all_among(row, (last - w) * run, first_codes(depth.size(), height.size(), lengths[w]))) continue;
            if constexpr (sizeof(W) == 1)
                if (range_count && all_in_ranges(row, (last - w) * run, ranges, range_count, uint8_t(lengths[w]))) continue;
            if (decode_.small() && all_in(row, (last - w) * run, rooms.masks[lengths[w]])) continue;
            const uint32_t packed = decode_.codes() ? Decoder::pack_lengths(depth.size(), height.size(), lengths[w]) : 0;
            if (!decode_.small() && decode_.all_inside(row, (last - w) * run, [=](auto lanes, int64_t) POOLGRAD_LAMBDA { return spread<uint32_t, lanes()>(packed); })) continue;
            for (int64_t i = 0; i < (last - w) * run; ++i)
                if (!Decoder::inside(decode_(row[i]), depth, height, Range{0, lengths[w]})) {
                    good = false;
                    bad_.report(space_.output_at(outer, d, h, outputs.first + w + i / run) + inner.first + i % run);
                }
        }
        return good;
    }

    // ---- gather ----

    // An output row that reaches a destination row: its gradients, its codes, and the code of this row at the window's start.
    struct Tap {
        const S* grads;
        const C* picked;  // the same as bits of A, where they are picked
        const C* codes;
        const uint8_t* bytes;  // the codes as they are stored, where they are dealt
        C base;
    };

    void gather(Rooms& rooms, Writer<S>& writer, const Box& box, int64_t outer, Range ws, const CodeView& codes) {
        const int64_t run = box.inner.size(), length = box.width.size() * run;
        const bool joined = run == space_.inner, bytes = !picks_ && codes.bytes == 1;  // compared as they are stored
        const bool dealt = bytes && joined && apart_ && run >= kLanes<Own>;
        std::fill_n(rooms.row_holds, kMostTaps, -1);
        const int64_t heights = height_().longest();
        for (int64_t d = box.depth.first; d < box.depth.last; ++d)
            for (int64_t h = box.height.first; h < box.height.last; ++h) {
                Tap taps[kMostTaps];
                int count = 0;
                const Range ds = space_.depth.cover(d), hs = space_.height.cover(h);
                for (int64_t z = ds.first; z < ds.last; ++z)
                    for (int64_t y = hs.first; y < hs.last; ++y) {
                        const int64_t place = z % depth_().longest() * heights + y % heights, key = z * space_.height.output_size() + y;
                        C* row = bytes ? nullptr : rooms.code_rows + place * rooms.row_size;
                        const S* grads = static_cast<const S*>(call_.grad) + space_.output_at(outer, z, y, ws.first) + box.inner.first;
                        C* picked = picks_ ? rooms.grad_rows + place * rooms.row_size : nullptr;
                        const uint8_t* stored = static_cast<const uint8_t*>(codes.data) + (bytes ? codes.index(z, y, ws.first) : 0);
                        if (rooms.row_holds[place] != key && bytes) {
                            check(rooms, stored, codes.pitch_width, outer, z, y, ws, box.inner);
                        } else if (rooms.row_holds[place] != key) {
                            read_row(rooms, codes, outer, z, y, ws, box.inner, row);
                            if (picks_) read_grads(picked, grads, ws.size());
                        }
                        rooms.row_holds[place] = key;
                        taps[count++] = {grads, picked, row, stored, C(uint64_t(d - space_.depth.window(z).first) * space_.step[0] +
                                                              uint64_t(h - space_.height.window(y).first) * space_.step[1])};
                    }
                const int64_t at = space_.input_at(outer, d, h, box.width.first) + box.inner.first;
                if constexpr (kWords<S, V>)
                    if (picks_) {
                        pick_row(rooms, box.width.size(), taps, count, writer.row(at, length));
                        continue;
                    }
                if (dealt)
                    deal(rooms, box, ws, count ? taps : nullptr, writer.row(at, length));
                else
                    for (int64_t i = 0; i < box.width.size(); ++i) {
                        S* to = writer.row(at + i * space_.inner, run);
                        if (bytes)
                            gather_run(rooms, i, ws.first, run, taps, count, &Tap::bytes, codes.pitch_width, to);
                        else
                            gather_run(rooms, i, ws.first, run, taps, count, &Tap::codes, run, to);
                    }
            }
    }

    // 0 + grad, of which floats of 16 bits lose their sign where they are 0, and become quiet where they are NaN.
    template <int lanes>
    POOLGRAD_INLINE static Vector<Own, lanes> lone(const S* grad) {
        if constexpr (is_small_float<S>) {
            constexpr int16_t infinity = std::is_same_v<S, Half> ? 0x7C00 : 0x7F80, quiet = std::is_same_v<S, Half> ? 0x200 : 0x40;
            using Bits = Vector<int16_t, lanes>;
            const auto bits = load<int16_t, lanes>(reinterpret_cast<const int16_t*>(grad));
            const Bits magnitude = Bits(bits & spread<int16_t, lanes>(0x7FFF)), none = spread<int16_t, lanes>(0);
            const Bits quieted = Bits(bits | spread<int16_t, lanes>(quiet));
            const Bits sum = select<int16_t, lanes>(magnitude > spread<int16_t, lanes>(infinity), quieted, bits);
            return bit_copy<Vector<Own, lanes>>(select<int16_t, lanes>(magnitude == none, none, sum));
        } else {
            return spread<Own, lanes>(0) + load<Own, lanes>(grad);
        }
    }
    template <int lanes>
    POOLGRAD_INLINE static Vector<Own, lanes> lone_if(Vector<OwnCode, lanes> codes, C code, Vector<Own, lanes> grad) {
        return select<Own, lanes>(codes == spread<OwnCode, lanes>(OwnCode(code)), grad, spread<Own, lanes>(0));
    }

    // A row of windows that do not overlap: each output goes to the columns of its own.
    void deal(const Rooms& rooms, const Box& box, Range ws, const Tap* tap, S* to) const {
        const int64_t run = box.inner.size();
        int64_t done = box.width.first;
        const auto zero_until = [&](int64_t end) {
            if (done < end) std::memset(to + (done - box.width.first) * run, 0, std::size_t((end - done) * run) * sizeof(S));
        };
        for (int64_t x = ws.first; tap && x < ws.last; ++x) {
            const int64_t start = rooms.starts[x - ws.first], first = std::max(start, box.width.first);
            const int64_t last = std::min(start + rooms.lengths[x - ws.first], box.width.last);
            if (first >= last) continue;
            zero_until(first);
            done = last;
            // Run by run, as they lie: of several at once the CPU foresees none.
            for (int64_t w = first; w < last; ++w) {
                const C here = C(tap->base + C(uint64_t(w - start) * space_.step[2]));
                auto* there = reinterpret_cast<Own*>(to) + (w - box.width.first) * run;
                each_column<Own>(run, [&](auto lanes, int64_t at) POOLGRAD_LAMBDA {
                    const auto code = load<OwnCode, lanes()>(tap->bytes + (x - ws.first) * run + at);
                    store<Own, lanes()>(there + at, lone_if<lanes()>(code, here, lone<lanes()>(tap->grads + (x - ws.first) * run + at)));
                });
            }
        }
        zero_until(box.width.last);
    }

    // Windows that do not overlap, as long as their stride of 2 or 4, of inner runs of 1: what goes to each place of a window is zipped.
    void zip_rows(Rooms& rooms, Writer<S>& writer, const Box& box, int64_t outer, Range ws, const CodeView& codes) {
        const Rule& rule = *space_.width.rule();
        const Range columns = box.width;
        // The windows [first, last) lie within the columns as a whole, and fill those of `within`.
        const int64_t first = divide_up(columns.first + rule.before, rule.stride);
        const int64_t last = std::min((columns.last + rule.before) / rule.stride, rule.output_size);
        Range within{first * rule.stride - rule.before, last * rule.stride - rule.before};
        if (last - first < kLanes<Own>) within = {columns.last, columns.last};
        const int64_t whole = all_whole() ? first_codes(space_.depth.longest_window(), space_.height.longest_window(), rule.window) : 0;
        const int64_t last_height = height_().range(box.height).last;
        int64_t depth = -1, checked = 0;  // those of this depth up to that height
        for (int64_t d = box.depth.first; d < box.depth.last; ++d) {
            const Range ds = space_.depth.cover(d);
            const int64_t z = ds.first, pitch = space_.input_at(0, 0, 1, 0);
            const auto base_depth = ds.empty() ? C(0) : C(uint64_t(d - space_.depth.window(z).first) * space_.step[0]);
            int64_t at = space_.input_at(outer, d, box.height.first, columns.first);
            for (int64_t h = box.height.first; h < box.height.last; ++h, at += pitch) {
                const Range hs = space_.height.cover(h);
                auto* to = reinterpret_cast<Own*>(writer.row(at, columns.size()));
                if (ds.empty() || hs.empty() || ws.empty()) {
                    std::memset(to, 0, std::size_t(columns.size()) * sizeof(S));
                    continue;
                }
                const int64_t y = hs.first;
                const uint8_t* row = static_cast<const uint8_t*>(codes.data) + codes.index(z, y, ws.first);
                const S* grads = static_cast<const S*>(call_.grad) + space_.output_at(outer, z, y, ws.first);
                const auto base = C(base_depth + C(uint64_t(h - space_.height.window(y).first) * space_.step[1]));
                if (!from_input_ && (depth != z || y >= checked)) {
                    const int64_t most = std::max<int64_t>(1, kCheckedCodes / ws.size());
                    depth = z, checked = std::min(y + most, last_height);
                    if (codes.pitch_height != ws.size() || !all_among(row, (checked - y) * ws.size(), whole))
                        for (int64_t i = y; i < checked; ++i)
                            check(rooms, row + (i - y) * codes.pitch_height, 1, outer, z, i, ws, box.inner);
                }
                const auto one = [&](int64_t column) {
                    const Range cover = space_.width.cover(column);
                    Own sum = 0;
                    if (!cover.empty())
                        sum = lone_if<1>(OwnCode(row[cover.first - ws.first]), C(base + C(column - space_.width.window(cover.first).first)),
                                         lone<1>(grads + cover.first - ws.first));
                    store<Own, 1>(to + column - columns.first, sum);
                };
                for (int64_t w = columns.first; w < within.first; ++w) one(w);
                for (int64_t w = within.last; w < columns.last; ++w) one(w);
                if (within.empty()) continue;
                if (rule.stride == 2)
                    zip_windows<2>(row + first - ws.first, grads + first - ws.first, base, last - first, to + within.first - columns.first);
                else
                    zip_windows<4>(row + first - ws.first, grads + first - ws.first, base, last - first, to + within.first - columns.first);
            }
        }
    }
    template <int stride>
    POOLGRAD_INLINE static void zip_windows(const uint8_t* codes, const S* grads, C base, int64_t count, Own* to) {
        constexpr int lanes = kLanes<Own>;
        constexpr std::make_index_sequence<std::size_t(lanes)> all;
        for (int64_t q = 0; q < count; q += lanes) {
            const int64_t at = std::min(q, count - lanes);
            const auto code = load<OwnCode, lanes>(codes + at);
            const auto grad = lone<lanes>(grads + at);
            const auto part = [&](int r) POOLGRAD_LAMBDA { return lone_if<lanes>(code, C(base + C(r)), grad); };
            const auto write = [&](int64_t i, auto even, auto odd) POOLGRAD_LAMBDA {
                store<Own, lanes>(to + at * stride + i * lanes, zip<0>(even, odd, all));
                store<Own, lanes>(to + at * stride + (i + 1) * lanes, zip<lanes / 2>(even, odd, all));
            };
            if constexpr (stride == 2) {
                write(0, part(0), part(1));
            } else {
                const auto a = part(0), b = part(1), c = part(2), d = part(3);
                write(0, zip<0>(a, c, all), zip<0>(b, d, all));
                write(2, zip<lanes / 2>(a, c, all), zip<lanes / 2>(b, d, all));
            }
        }
    }

    static void read_grads(C* to, const S* from, int64_t count) {
        each_column<A>(count, [=](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            store<C, lanes>(to + at, bit_copy<Vector<C, lanes>>(load<A, lanes>(from + at)));
        });
    }
    void prepare_columns(Rooms& rooms, Range columns, Range outputs) const {
        if (rooms.picked == columns) return;
        rooms.picked = columns;
        if constexpr (kWords<S, V>)
            if (picks_) rooms.picks.prepare(columns.size(), 1, [&](int64_t i) { return space_.width.cover(columns.first + i).from(outputs.first); });
        const int64_t pitch = tile_[3] + kLanes<C>;
        std::fill_n(rooms.column_codes, width_().longest() * pitch, C(0));
        for (int64_t w = columns.first; w < columns.last; ++w) {
            const Range cover = rooms.covers[w - columns.first] = space_.width.cover(w);
            for (int64_t x = cover.first; x < cover.last; ++x)
                rooms.column_codes[(x - cover.first) * pitch + w - columns.first] = C(uint64_t(w - space_.width.window(x).first) * space_.step[2]);
        }
    }
    // A row of destinations of an irregular axis.
    POOLGRAD_NOINLINE void pick_row(const Rooms& rooms, int64_t columns, const Tap* taps, int count, S* to) const {
        constexpr int lanes = kLanes<C>;
        const int64_t pitch = tile_[3] + lanes;
        rooms.picks.visit([&](auto how) POOLGRAD_LAMBDA {
            using Terms = typename Picks<C>::template Terms<decltype(how)::value>;
            for (int64_t at = 0; at < columns; at += lanes) {
                Vector<A, lanes> sum = spread<A, lanes>(0);
                for (int i = 0; i < count; ++i) {
                    const Terms codes(rooms.picks, taps[i].codes, at), grads(rooms.picks, taps[i].picked, at);
                    for (int32_t t = 0; t < rooms.picks.longest(); ++t) {
                        const auto here = load<C, lanes>(rooms.column_codes + t * pitch + at) + spread<C, lanes>(taps[i].base);
                        const Mask<A, lanes> same = (codes.term(t) == here) & codes.has(t);
                        sum = sum + select<A, lanes>(same, bit_copy<Vector<A, lanes>>(grads.term(t)), spread<A, lanes>(0));
                    }
                }
                S rest[lanes];
                const int64_t left = columns - at;
                store<A, lanes>(left >= lanes ? to + at : rest, sum);
                if (left < lanes) std::memcpy(to + at, rest, std::size_t(left) * sizeof(S));
            }
        });
    }

    // One place of a tap: all its elements are compared with one code.
    template <class W>
    struct Place {
        const S* grads;
        const W* codes;
        C code;
    };
    template <class W>
    void gather_run(const Rooms& rooms, int64_t column, int64_t first, int64_t run, const Tap* taps, int count, const W* Tap::*codes,
                    int64_t pitch, S* to) const {
        Place<W> places[kMostTaps];
        int place_count = 0;
        const Range cover = rooms.covers[column];
        for (int i = 0; i < count; ++i) {
            const S* grads = taps[i].grads + (cover.first - first) * space_.inner;
            const W* row = taps[i].*codes + (cover.first - first) * pitch;
            const C* code = rooms.column_codes + column;
            for (int64_t x = cover.first; x < cover.last; ++x, grads += space_.inner, row += pitch, code += tile_[3] + kLanes<C>)
                places[place_count++] = {grads, row, C(taps[i].base + *code)};
        }
        int64_t done = 0;
        for (; done + 4 * kLanes<A> <= run; done += 4 * kLanes<A>)
            gather_places<kLanes<A>>(places, place_count, to, done, std::make_index_sequence<4>());
        const int64_t back = std::min(done, std::max<int64_t>(0, done - run + kLanes<A>));
        each_column<A>(run - done + back, [&](auto lanes, int64_t at) POOLGRAD_LAMBDA {
            gather_places<lanes()>(places, place_count, to, done - back + at, std::make_index_sequence<1>());
        });
    }
    // Some registers from `at` on. No loops over them: those would keep the sums in memory.
    template <int lanes, class W, std::size_t... r>
    POOLGRAD_INLINE static void gather_places(const Place<W>* places, int count, S* to, int64_t at, std::index_sequence<r...>) {
        Vector<A, lanes> sums[sizeof...(r)] = {spread<A, lanes>(A(0 * r))...};
        for (int i = 0; i < count; ++i) {
            const auto code = spread<C, lanes>(places[i].code);
            const auto term = [&](int64_t from) POOLGRAD_LAMBDA {
                const Mask<A, lanes> same = load<C, lanes>(places[i].codes + from) == code;
                return select<A, lanes>(same, load<A, lanes>(places[i].grads + from), spread<A, lanes>(0));
            };
            ((sums[r] = sums[r] + term(at + int64_t(r) * lanes)), ...);
        }
        (store<A, lanes>(to + at + int64_t(r) * lanes, sums[r]), ...);
    }

    // ---- scatter ----

    // Where a box is summed: in the result itself, or beside it.
    struct Sums {
        A* origin;  // of the box's first element
        int64_t pitch_depth, pitch_height, pitch_width;
        int64_t zeroed = 0;  // rows of the box, counted through its depths, that are set to 0
    };

    void scatter(Rooms& rooms, const Box& box, int64_t outer, int planes, const Box& outputs) {
        const int64_t run = box.inner.size(), rows = box.depth.size() * box.height.size();
        S* result = static_cast<S*>(call_.destination) + space_.input_at(outer, box.depth.first, box.height.first, box.width.first) + box.inner.first;
        Sums sums{reinterpret_cast<A*>(result), space_.input_at(0, 1, 0, 0), space_.input_at(0, 0, 1, 0), space_.inner};
        if (beside_) sums = {rooms.sums, box.height.size() * box.width.size() * run, box.width.size() * run, run};
        for (int64_t code = 0; code < decode_.codes(); ++code) {
            const Offset offset = decode_(uint64_t(code));
            rooms.offsets[code] = offset.depth * sums.pitch_depth + offset.height * sums.pitch_height + offset.width * sums.pitch_width;
        }
        if (!from_input_ || planes > 1) {
            scatter_rows(rooms, box, outer, outputs, view(rooms, outer, outputs), sums);
        } else {
            // Portions in ascending order: whole depths, or rows of one, or parts of a row.
            const Range ds = outputs.depth, hs = outputs.height, ws = outputs.width;
            const int64_t columns = std::min(std::max<int64_t>(1, ws.size()), found_), heights = std::max<int64_t>(1, found_ / columns);
            const int64_t depths = std::max<int64_t>(1, heights / std::max<int64_t>(1, hs.size()));
            for (int64_t d = ds.first; d < ds.last; d += depths)
                for (int64_t h = hs.first; h < hs.last; h += heights)
                    for (int64_t w = ws.first; w < ws.last; w += columns) {
                        const Box part{{}, {d, std::min(d + depths, ds.last)}, {h, std::min(h + heights, hs.last)},
                                       {w, std::min(w + columns, ws.last)}, box.inner};
                        find(rooms, {outer, outer + 1}, part);
                        scatter_rows(rooms, box, outer, part, view(rooms, outer, part), sums);
                    }
        }
        zero_until(sums, box, rows);
        if (!beside_) return;
        const bool joined = run == space_.inner;
        if (joined && box.width.size() == space_.width.input_size() && (box.depth.size() == 1 || box.height.size() == space_.height.input_size()))
            return write_sums(result, sums.origin, rows * sums.pitch_height);
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t w = 0; w < (joined ? 1 : box.width.size()); ++w)
                write_sums(result + row / box.height.size() * space_.input_at(0, 1, 0, 0) +
                               row % box.height.size() * space_.input_at(0, 0, 1, 0) + w * space_.inner,
                           sums.origin + row * sums.pitch_height + w * run, joined ? box.width.size() * run : run);
    }
    void write_sums(S* to, const A* from, int64_t count) const {
        if constexpr (std::is_same_v<A, S>)
            if (stream_) {
                stream_copy(to, from, count, true);
                stream_fence();
                return;
            }
        each_column<A>(count, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            store<A, lanes>(to + at, load<A, lanes>(from + at));
        });
    }

    // Of planes that are scattered as one: where each window starts and which codes it has (a mask of up to 32 codes, else its packed
    // lengths), and what codes add to that.
    int64_t plane_tables(std::byte* base) {
        Arena arena(base);
        plane_starts_ = arena.take<int32_t>(outputs_each());
        if (decode_.small())
            plane_masks_ = arena.take<uint32_t>(outputs_each());
        else
            plane_lengths_ = arena.take<uint32_t>(outputs_each());
        plane_offsets_ = arena.take<int32_t>(decode_.codes());
        if (!base) return arena.used();
        const int64_t row = space_.width.input_size(), plane = space_.height.input_size() * row;
        for (int64_t code = 0; code < decode_.codes(); ++code) {
            const Offset offset = decode_(uint64_t(code));
            plane_offsets_[code] = int32_t(offset.depth * plane + offset.height * row + offset.width);
        }
        int64_t at = 0;
        for (int64_t d = 0; d < space_.depth.output_size(); ++d)
            for (int64_t h = 0; h < space_.height.output_size(); ++h)
                for (int64_t w = 0; w < space_.width.output_size(); ++w, ++at) {
                    const Range z = space_.depth.window(d), y = space_.height.window(h), x = space_.width.window(w);
                    plane_starts_[at] = int32_t(z.first * plane + y.first * row + x.first);
                    if (decode_.small())
                        plane_masks_[at] = decode_.mask(z.size(), y.size(), x.size());
                    else
                        plane_lengths_[at] = Decoder::pack_lengths(z.size(), y.size(), x.size());
                }
        return arena.used();
    }

    // Some planes side by side: in one, an addition often has to wait for the one before, which went to the same place.
    void scatter_planes(const Rooms& rooms, int64_t outer, int64_t planes, int64_t first_code) {
        const int64_t outputs = outputs_each(), inputs = space_.input_at(1, 0, 0, 0);
        S* result = static_cast<S*>(call_.destination) + outer * inputs;
        const S* grads = static_cast<const S*>(call_.grad) + outer * outputs;
        A* sums = beside_ ? rooms.sums : reinterpret_cast<A*>(result);
        std::memset(sums, 0, std::size_t(inputs * planes) * sizeof(A));
        visit_winners<C, S>(from_input_ ? rooms.found : call_.winners, call_.winner_bytes, [&](const auto* typed) {
            const auto* codes = typed + first_code;
            bool good = true;
            for (int64_t p = 0; p < planes && !from_input_; ++p) good &= plane_is_good(codes + p * outputs, outer + p);
            if (!good) return;
            const auto add = [&](auto count, int64_t first) POOLGRAD_LAMBDA {
                A* to = sums + first * inputs;
                const auto* from = codes + first * outputs;
                const S* grad = grads + first * outputs;
                for (int64_t i = 0; i < outputs; ++i)
                    for (int p = 0; p < count(); ++p) {
                        A& sum = to[p * inputs + plane_starts_[i] + plane_offsets_[from[p * outputs + i]]];
                        sum = A(sum + load<A, 1>(grad + p * outputs + i));
                    }
            };
            if (planes == kTogether)
                add(Constant<kTogether>(), 0);
            else
                for (int64_t p = 0; p < planes; ++p) add(Constant<1>(), p);
        });
        if (beside_) write_sums(result, sums, inputs * planes);
    }
    template <class W>
    bool plane_is_good(const W* codes, int64_t outer) {
        const int64_t outputs = outputs_each();
        if (decode_.small() ? all_in_each(codes, outputs, plane_masks_)
                            : decode_.all_inside(codes, outputs, [this](auto lanes, int64_t at) POOLGRAD_LAMBDA { return load<uint32_t, lanes()>(plane_lengths_ + at); }))
            return true;
        bool good = true;
        const int64_t row = space_.width.output_size(), plane = space_.height.output_size() * row;
        for (int64_t i = 0; i < outputs; ++i)
            if (!Decoder::inside(decode_(codes[i]), space_.depth.window(i / plane), space_.height.window(i % plane / row),
                                 space_.width.window(i % row)))
                good = false, bad_.report(outer * outputs + i);
        return good;
    }

    // Sets rows to 0 just before they are first added to, while they are on their way into the cache anyway.
    void zero_until(Sums& sums, const Box& box, int64_t rows) const {
        const int64_t run = box.inner.size();
        for (; sums.zeroed < rows; ++sums.zeroed) {
            A* row = sums.origin + sums.zeroed / box.height.size() * sums.pitch_depth + sums.zeroed % box.height.size() * sums.pitch_height;
            if (sums.pitch_width == run)
                std::memset(row, 0, std::size_t(box.width.size() * run) * sizeof(A));
            else
                for (int64_t w = 0; w < box.width.size(); ++w) std::memset(row + w * sums.pitch_width, 0, std::size_t(run) * sizeof(A));
        }
    }

    void scatter_rows(Rooms& rooms, const Box& box, int64_t outer, const Box& outputs, const CodeView& codes, Sums& sums) {
        const auto zero = [&](int64_t d, int64_t h) {
            const int64_t deepest = std::min(space_.depth.window(d).last, box.depth.last) - box.depth.first;
            const int64_t lowest = std::min(space_.height.window(h).last, box.height.last) - box.height.first;
            zero_until(sums, box, std::max<int64_t>(0, deepest - 1) * box.height.size() + std::max<int64_t>(0, lowest));
        };
        const auto grads = [&](int64_t d, int64_t h, int64_t w) {
            return static_cast<const S*>(call_.grad) + space_.output_at(outer, d, h, w) + box.inner.first;
        };
        const int64_t lag = space_.height.longest_cover();
        if (rooms.stream_offsets && outputs.height.size() / kStreams >= lag && outputs.depth.size() > 1 && outputs.width.size() <= kPortion &&
            box.width.size() == space_.width.input_size()) {
            prepare(rooms, outputs.width);
            const int64_t steps = divide_up(outputs.depth.size(), kStreams) * outputs.height.size() + (kStreams - 1) * lag;
            visit_winners<C, S>(codes.data, codes.bytes, [&](const auto* typed) {
                using W = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
                for (int64_t step = 0; step < steps; ++step) {
                    Stream<W> streams[kStreams];
                    int count = 0;
                    for (int64_t i = 0; i < kStreams; ++i) {
                        const int64_t row = step - i * lag, d = outputs.depth.first + row / outputs.height.size() * kStreams + i;
                        if (row < 0 || d >= outputs.depth.last) continue;
                        const int64_t h = outputs.height.first + row % outputs.height.size();
                        const W* its_codes = typed + codes.index(d, h, outputs.width.first);
                        zero(d, h);
                        if (!check(rooms, its_codes, codes.pitch_width, outer, d, h, outputs.width, box.inner)) continue;
                        const Range depth = space_.depth.window(d), height = space_.height.window(h);
                        streams[count++] = {sums.origin + (depth.first - box.depth.first) * sums.pitch_depth +
                                                (height.first - box.height.first) * sums.pitch_height - box.width.first,
                                            stream_table(rooms, int(i), box, depth, height), its_codes, grads(d, h, outputs.width.first)};
                    }
                    if (count == kStreams)
                        scatter_streams(rooms.starts, outputs.width.size(), streams, Constant<kStreams>());
                    else
                        for (int i = 0; i < count; ++i) scatter_streams(rooms.starts, outputs.width.size(), streams + i, Constant<1>());
                }
            });
            return;
        }
        for (int64_t d = outputs.depth.first; d < outputs.depth.last; ++d)
            for (int64_t h = outputs.height.first; h < outputs.height.last; ++h) {
                zero(d, h);
                for (int64_t w = outputs.width.first; w < outputs.width.last; w += kPortion) {
                    const Range portion{w, std::min(w + kPortion, outputs.width.last)};
                    prepare(rooms, portion);
                    visit_winners<C, S>(codes.data, codes.bytes, [&](const auto* typed) {
                        const auto* row = typed + codes.index(d, h, w);
                        if (check(rooms, row, codes.pitch_width, outer, d, h, portion, box.inner))
                            scatter_row(rooms, box, d, h, row, codes.pitch_width, grads(d, h, w), sums);
                    });
                }
            }
    }

    // Rows of neighbouring depths that are scattered at once, each so far behind the one before that their windows do not meet: additions
    // to one element keep their order, and one need not wait for another's.
    template <class W>
    struct Stream {
        A* sums;
        const int32_t* offsets;  // -1 for codes outside the box
        const W* codes;
        const S* grads;
    };
    const int32_t* stream_table(Rooms& rooms, int stream, const Box& box, Range depth, Range height) const {
        int32_t* table = rooms.stream_offsets + stream * decode_.codes();
        // From and to which offset a window lies within the box.
        const auto inside = [](Range all, Range window) {
            const bool whole = all.first <= window.first && window.last <= all.last;
            return whole ? Range{0, INT64_MAX} : Range{all.first - window.first, all.last - window.first};
        };
        const auto holds = [](Range range, int64_t offset) { return range.first <= offset && offset < range.last; };
        const std::pair<Range, Range> here{inside(box.depth, depth), inside(box.height, height)};
        if (here == rooms.stream_inside[stream]) return table;
        rooms.stream_inside[stream] = here;
        for (int64_t code = 0; code < decode_.codes(); ++code) {
            const Offset offset = decode_(uint64_t(code));
            const bool in_box = holds(here.first, offset.depth) && holds(here.second, offset.height);
            table[code] = in_box ? int32_t(rooms.offsets[code]) : -1;
        }
        return table;
    }
    template <class W, int count>
    POOLGRAD_NOINLINE static void scatter_streams(const int64_t* starts, int64_t outputs, const Stream<W>* streams, Constant<count>) {
        A nowhere = 0;
        for (int64_t w = 0; w < outputs; ++w)
            for (int i = 0; i < count; ++i) {
                const int32_t offset = streams[i].offsets[streams[i].codes[w]];
                A* sum = offset >= 0 ? streams[i].sums + starts[w] + offset : &nowhere;
                *sum = A(*sum + load<A, 1>(streams[i].grads + w));
            }
    }

    // Neighbours never meet, so all sums are read before one is written. No loops: those would keep them in memory.
    POOLGRAD_INLINE static void add_eight(A* sum, const int64_t* offsets, const uint8_t* codes, const S* grads) {
        const auto at = [&](int i) POOLGRAD_LAMBDA { return sum + offsets[codes[i]] + i; };
        const auto added = [&](const A* to, int i) POOLGRAD_LAMBDA { return A(*to + load<A, 1>(grads + i)); };
        A *const a = at(0), *const b = at(1), *const c = at(2), *const d = at(3);
        A *const e = at(4), *const f = at(5), *const g = at(6), *const h = at(7);
        const A sums[8] = {added(a, 0), added(b, 1), added(c, 2), added(d, 3), added(e, 4), added(f, 5), added(g, 6), added(h, 7)};
        *a = sums[0], *b = sums[1], *c = sums[2], *d = sums[3], *e = sums[4], *f = sums[5], *g = sums[6], *h = sums[7];
    }

    // One output row, its codes all right.
    template <class W>
    void scatter_row(const Rooms& rooms, const Box& box, int64_t d, int64_t h, const W* codes, int64_t pitch, const S* grads,
                     const Sums& place) {
        const Range depth = space_.depth.window(d), height = space_.height.window(h);
        const int64_t run = box.inner.size();
        A* sums = place.origin + (depth.first - box.depth.first) * place.pitch_depth + (height.first - box.height.first) * place.pitch_height;
        const bool rows_inside = depth.first >= box.depth.first && depth.last <= box.depth.last && height.first >= box.height.first &&
                                 height.last <= box.height.last;
        const Range outputs = rooms.outputs;
        const int64_t *starts = rooms.starts, *lengths = rooms.lengths;
        // Windows [inner_first, inner_last) lie within the box as a whole: their codes need no looking at.
        int64_t inner_first = 0, inner_last = rooms.offsets ? outputs.size() : 0;
        while (inner_first < inner_last && starts[inner_first] < box.width.first) ++inner_first;
        while (inner_first < inner_last && starts[inner_last - 1] + lengths[inner_last - 1] > box.width.last) --inner_last;
        if (!rows_inside && decode_.codes() > (inner_last - inner_first) * run) inner_last = inner_first;  // a table would cost more
        const auto checked = [&](int64_t w) {
            for (int64_t i = 0; i < run; ++i) {
                const Offset offset = decode_(codes[w * pitch + i]);
                const int64_t z = depth.first + offset.depth - box.depth.first, y = height.first + offset.height - box.height.first;
                const int64_t x = starts[w] + offset.width - box.width.first;
                if (uint64_t(z) >= uint64_t(box.depth.size()) || uint64_t(y) >= uint64_t(box.height.size()) ||
                    uint64_t(x) >= uint64_t(box.width.size()))
                    continue;
                A& sum = place.origin[z * place.pitch_depth + y * place.pitch_height + x * place.pitch_width + i];
                sum = A(sum + load<A, 1>(grads + w * space_.inner + i));
            }
        };
        for (int64_t w = 0; w < inner_first; ++w) checked(w);
        const int64_t* offsets = rooms.offsets;
        const auto start = [&](int64_t w) { return sums + (starts[w] - box.width.first) * place.pitch_width; };
        if (!rows_inside) {
            int64_t* here = rooms.offsets + decode_.codes();
            for (int64_t code = 0; code < decode_.codes(); ++code) {
                const Offset offset = decode_(uint64_t(code));
                const int64_t z = depth.first + offset.depth, y = height.first + offset.height;
                const bool inside = z >= box.depth.first && z < box.depth.last && y >= box.height.first && y < box.height.last;
                here[code] = inside ? offsets[code] : -1;
            }
            A nowhere = 0;
            for (int64_t w = inner_first; w < inner_last; ++w)
                for (int64_t i = 0; i < run; ++i) {
                    const int64_t offset = here[codes[w * pitch + i]];
                    A* sum = offset >= 0 ? start(w) + offset + i : &nowhere;
                    *sum = A(*sum + load<A, 1>(grads + w * space_.inner + i));
                }
        } else if (run == 1) {
            for (int64_t w = inner_first; w < inner_last; ++w) {
                A* sum = start(w) + offsets[codes[w * pitch]];
                *sum = A(*sum + load<A, 1>(grads + w * space_.inner));
            }
        } else {
            for (int64_t w = inner_first; w < inner_last; ++w) {
                A* sum = start(w);
                const W* code = codes + w * pitch;
                const S* grad = grads + w * space_.inner;
                int64_t i = 0;
                if constexpr (sizeof(W) == 1)
                    for (; i + 8 <= run; i += 8) add_eight(sum + i, offsets, code + i, grad + i);
                for (; i < run; ++i) sum[offsets[code[i]] + i] = A(sum[offsets[code[i]] + i] + load<A, 1>(grad + i));
            }
        }
        for (int64_t w = std::max(inner_first, inner_last); w < outputs.size(); ++w) checked(w);
    }

    const MaxCall& call_;
    const MaxSpace space_;
    const Turn<V> sign_;
    const Decoder decode_;
    const bool from_input_;
    const bool picks_;  // inner is 1 and width irregular: a gather picks a register of destinations at a time
    const bool apart_;   // no windows overlap
    const bool zipped_;  // these have inner runs of 1 and are as long as their stride: a gather writes registers of them
    const bool gather_;
    const Finder finder_;
    bool stream_ = false, beside_ = false;  // beside_: a scatter sums in scratch first
    int64_t together_ = 1;                  // planes
    bool planewise_ = false;                // small planes are scattered as one, by the tables below
    int32_t *plane_starts_ = nullptr, *plane_offsets_ = nullptr;
    uint32_t *plane_masks_ = nullptr, *plane_lengths_ = nullptr;
    int64_t reached_ = 0;  // outputs along width that reach a box, at most
    int64_t found_ = 0;  // winners of a box that are found at once, for each inner element
    Extent tile_{};
    FirstIndex bad_;
};

}  // namespace poolgrad::POOLGRAD_ISA
