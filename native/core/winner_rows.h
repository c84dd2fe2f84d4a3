// What all ways to gradients of maxima share: the winners of the outputs that reach a box, given with the call or found again in the input,
// and checked row by row.
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

// What gradients are summed in. Integers wrap: sums of them in lanes as large as codes, where it can be.
template <class S, class V, class C>
using MaxSum = std::conditional_t<std::is_integral_v<S>, std::conditional_t<kPlain<S, V>, Accumulator<int32_t>, C>, Accumulator<S>>;

// How a call is cut into boxes of the destination.
struct MaxBoxes {
    Extent tile{};
    int64_t reached = 0;  // outputs along width that reach a box, at most
    int64_t found = 0;    // winners of a box that are found at once, for each inner element
    bool stream = false, beside = false;  // beside: a scatter sums in scratch first
};

template <class S, class V, class C>
class WinnerRows {
    using Finder = Best<S, V, C, true>;

  public:
    // planes: winners may be found of several planes side by side.
    WinnerRows(const MaxCall& call, const MaxSpace& space, bool planes)
        : call_(call), space_(space), sign_(call, Type<S>()), decode_(space_), from_input_(call.source != nullptr), finder_(call, space_, planes) {}

    const MaxCall& call() const { return call_; }
    const MaxSpace& space() const { return space_; }
    const Decoder& decode() const { return decode_; }
    const Finder& finder() const { return finder_; }
    bool from_input() const { return from_input_; }
    int planes() const { return from_input_ ? finder_.planes() : 1; }  // whose winners are found side by side
    void report(int64_t bad) { bad_.report(bad); }
    int64_t first_bad() const { return bad_.value(); }

    // How many codes windows of these lengths have, if they are the first ones; else 0.
    int64_t first_codes(int64_t depth, int64_t height, int64_t width) const {
        const auto step = [this](std::size_t axis) { return int64_t(space_.step[axis]); };
        const bool rows_follow = height == 1 || step(1) == width, planes_follow = depth == 1 || step(0) == height * width;
        return decode_.codes() && rows_follow && planes_follow ? depth * height * width : 0;
    }

    // The same for all windows of the call, if none is cut off.
    int64_t codes_of_all() const {
        for (const Axis* axis : {&space_.depth, &space_.height, &space_.width}) {
            const Rule* rule = axis->rule();
            if (!rule || rule->before || (rule->output_size - 1) * rule->stride + rule->window > rule->input_size) return 0;
        }
        return first_codes(space_.depth.longest_window(), space_.height.longest_window(), space_.width.longest_window());
    }

    struct Rooms {
        // For so many outputs of width at most; columns: inner runs of 1 are checked by what their columns have.
        Rooms(const WinnerRows& job, Arena& arena, const MaxBoxes& boxes, int64_t most_outputs, bool columns) {
            const int64_t run = boxes.tile[4];
            for (int64_t** table : {&starts, &lengths, &alike}) *table = arena.take<int64_t>(most_outputs);
            if (job.from_input_) {
                finder = {typename Finder::Rooms(job.finder_, arena)};
                found = arena.take<std::byte>(boxes.found * run * job.finder_.planes() * job.call_.winner_bytes);
            }
            if (columns && run == 1 && job.decode_.small()) column_masks = arena.take<uint32_t>(most_outputs);
            if (columns && run == 1 && job.decode_.codes() && !job.decode_.small()) column_lengths = arena.take<uint32_t>(most_outputs);
        }
        Range outputs{0, 0};                // of width, whose windows start at `starts` and have `lengths`
        int64_t *starts, *lengths, *alike;  // alike: the first of those after it whose window has another length
        uint32_t masks[33];                 // codes that windows of some length have, for some lengths of depth and height
        int64_t masks_of[2] = {0, 0};
        // For inner runs of 1: masks of the windows' lengths, or one less than these.
        uint32_t *column_masks = nullptr, *column_lengths = nullptr;
        std::optional<typename Finder::Rooms> finder;
        std::byte* found = nullptr;
        int64_t found_from = 0;  // the first plane of these
    };

    // The outputs that reach a box.
    Box outputs_of(const Box& box) const {
        const auto range = [](const Axis& axis, Range inputs) { return Side{&axis, true}.range(inputs); };
        return {{}, range(space_.depth, box.depth), range(space_.height, box.height), range(space_.width, box.width), box.inner};
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
    // Calls function(outer, winners) for all planes of some groups, whose winners are found where they are not given.
    template <class Function>
    void each_plane(Rooms& rooms, Range groups, const Box& outputs, const Function& function) {
        for (int64_t group = groups.first; group < groups.last; ++group) {
            if (from_input_) find(rooms, {group, group + 1}, outputs);
            const int64_t last = std::min((group + 1) * planes(), space_.outer);
            for (int64_t outer = group * planes(); outer < last; ++outer) function(outer, view(rooms, outer, outputs));
        }
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
            const uint32_t rest = Decoder::pack_lengths(depth.size(), height.size(), 1);
            const uint32_t* its_lengths = rooms.column_lengths + (outputs.first - rooms.outputs.first);
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
            const auto lengths_of = [=](auto lanes, int64_t) POOLGRAD_LAMBDA { return spread<uint32_t, lanes()>(packed); };
            if (!decode_.small() && decode_.all_inside(row, (last - w) * run, lengths_of)) continue;
            for (int64_t i = 0; i < (last - w) * run; ++i)
                if (!Decoder::inside(decode_(row[i]), depth, height, Range{0, lengths[w]})) {
                    good = false;
                    bad_.report(space_.output_at(outer, d, h, outputs.first + w + i / run) + inner.first + i % run);
                }
        }
        return good;
    }

  private:
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
            odd.template note<lanes>(other);
        });
        return !odd.seen();
    }

    const MaxCall& call_;
    const MaxSpace space_;
    const Turn<V> sign_;
    const Decoder decode_;
    const bool from_input_;
    const Finder finder_;
    FirstIndex bad_;
};

}  // namespace poolgrad::POOLGRAD_ISA
