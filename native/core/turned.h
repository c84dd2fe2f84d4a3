// Planes turned: arrays with channels first as arrays with channels last. Some planes at a time are laid side by side in scratch, so that
// they become the inner run, a kernel runs on these, and what it wrote is turned back.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// A register of parts of 16 bytes, from one place each.
template <class Raw>
POOLGRAD_INLINE Vector<Raw, kLanes<Raw>> load_parts(const Raw* first, const Raw* second) {
#ifdef POOLGRAD_AVX2
    const auto raw = [](const Raw* from) POOLGRAD_LAMBDA { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); };
    return bit_copy<Vector<Raw, kLanes<Raw>>>(_mm256_inserti128_si256(_mm256_castsi128_si256(raw(first)), raw(second), 1));
#else
    (void)second;
    return load<Raw, kLanes<Raw>>(first);
#endif
}

// to[c][r] = from[r][c] of as many rows as a register has elements and some times as many columns as its parts of 16 bytes have.
template <class Raw>
POOLGRAD_INLINE void turn_blocks(Raw* to, int64_t to_pitch, const Raw* from, int64_t from_pitch, int64_t count) {
    constexpr int lanes = kLanes<Raw>, part = kPart<Raw>;
    const Raw* second = from + (kParts<Raw> - 1) * part * from_pitch;
    for (; count > 0; --count, from += part, second += part, to += part * to_pitch) {
        Vector<Raw, lanes> rows[part];
        for (int i = 0; i < part; ++i) rows[i] = load_parts<Raw>(from + i * from_pitch, second + i * from_pitch);
        transpose_parts<Raw>(rows);
        for (int i = 0; i < part; ++i) store<Raw, lanes>(to + i * to_pitch, rows[i]);
    }
}

// to[c][r] = from[r][c], lines of the cache by lines: each is read and written as a whole. The last blocks overlap those before.
template <class Raw>
POOLGRAD_NOINLINE void turn(Raw* to, int64_t to_pitch, const Raw* from, int64_t from_pitch, int64_t rows, int64_t columns) {
    constexpr int64_t high = kLanes<Raw>, wide = kPart<Raw>, line = 64 / int64_t(sizeof(Raw));
    if (rows < high || columns < wide) {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) to[c * to_pitch + r] = from[r * from_pitch + c];
        return;
    }
    // The CPU does not foresee so many rows: of short ones the next lines of all, of others those further on, in the end those of the next.
    const bool short_rows = from_pitch <= 4 * line;
    constexpr int64_t ahead = 8 * line;
    for (int64_t r = 0; r < rows; r += line)
        for (int64_t c = 0; c < columns; c += line) {
            const Raw* next = short_rows            ? from + (r + line) * from_pitch + c * line
                              : c + ahead < columns ? from + r * from_pitch + c + ahead
                                                    : from + (r + line) * from_pitch + c + ahead - columns;
            for (int64_t i = 0; i < line; ++i) __builtin_prefetch(next + i * (short_rows ? line : from_pitch));
            const int64_t count = std::min(line, columns - c), last = columns - wide;
            for (int64_t i = r; i < std::min(r + line, rows); i += high) {
                const int64_t y = std::min(i, rows - high);
                turn_blocks(to + c * to_pitch + y, to_pitch, from + y * from_pitch + c, from_pitch, count / wide);
                if (count % wide) turn_blocks(to + last * to_pitch + y, to_pitch, from + y * from_pitch + last, from_pitch, 1);
            }
        }
}

// One array of a call, as large as its input or its output. Without data it is not part of the call.
struct Turned {
    const void* data;
    int64_t bytes;  // of an element
    bool output, written;
};

inline bool can_turn(const Layout& layout) { return layout.inner == 1 && layout.outer >= 16; }

// Cuts a call into groups of planes, and these into strips along the first axis of some length, so that a group stays in the
// second-level cache.
template <std::size_t count>
class Turning {
  public:
    Turning(const Layout& layout, int workers, bool gradient, const std::array<Turned, count>& arrays)
        : layout_(layout), workers_(workers), gradient_(gradient), cut_(layout.axes[0]->input_size() > 1 ? 0 : 1), arrays_(arrays) {
        const Axis& axis = *layout.axes[cut_];
        // In doubles: of empty arrays the sizes may be anything.
        double elements[2] = {1, 1}, bytes = 0;
        for (const Axis* each : layout.axes) elements[0] *= double(each->input_size()), elements[1] *= double(each->output_size());
        if (elements[0] == 0 || elements[1] == 0) return;
        for (const Turned& array : arrays) bytes += array.data ? elements[array.output] * double(array.bytes) : 0;
        plane_ = {int64_t(elements[0]), int64_t(elements[1])}, slice_ = {plane_[0] / axis.input_size(), plane_[1] / axis.output_size()};
        traffic_ = int64_t(double(layout.outer) * bytes);
        const int64_t most = std::max<int64_t>(16, divide_up(layout.outer, 2 * workers) / 16 * 16);
        const double fitting = double(kCached) / bytes;  // planes that fit uncut
        for (int64_t wanted = std::clamp(int64_t(fitting), int64_t(64), kMostPlanes); wanted >= 16; wanted /= 2)
            if (cut(axis, std::min(wanted / 16 * 16, most), fitting)) return;
        cut(axis, 16, double(kSpilled) / bytes);  // in the third cache: rows one by one take longer still
    }
    // At once; 0 where they are too large.
    int64_t planes() const { return planes_; }

    // Calls run(layout, places of the arrays) for each group, on one worker. Returns the last of its results that is not -1.
    template <class Run>
    int64_t run(const Run& run) const {
        Arena measure(nullptr);
        Rooms(*this, measure);
        std::atomic<int64_t> result{-1};
        std::atomic<bool> failed{false};
        const Tiling tiling{{layout_.outer, int64_t(strips_.size()), 1, 1, 1}, {planes_, 1, 1, 1, 1}};
        run_boxes(tiling, workers_, traffic_, measure.used(), [&](const Box& box, std::byte* scratch) {
            Arena arena(scratch);
            const Rooms rooms(*this, arena);
            const Strip& strip = strips_[std::size_t(box.depth.first)];
            Layout group = layout_;
            group.outer = 1, group.inner = box.outer.size(), group.axes[cut_] = &strip.part.axis;
            for (std::size_t i = 0; i < count; ++i)
                if (rooms.places[i] && !arrays_[i].written) take(arrays_[i], strip, box.outer, rooms.places[i]);
            try {
                const int64_t found = strip.outputs.empty() ? -1 : run(group, rooms.places);
                if (found >= 0) result.store(found, std::memory_order_relaxed);
            } catch (const std::bad_alloc&) {
                failed.store(true, std::memory_order_relaxed);
            }
            for (std::size_t i = 0; i < count; ++i)
                if (rooms.places[i] && arrays_[i].written) give(arrays_[i], strip, box.outer, rooms.places[i], rooms.staging);
        });
        if (failed.load()) throw NoScratch();
        return result.load();
    }

  private:
    static constexpr int64_t kMostPlanes = 128, kCached = 768 << 10, kSpilled = 2 << 20;
    static constexpr int64_t kTogether = 16, kStretch = 1024;  // planes, and elements of each, that are given back together
    static constexpr int64_t kPitch = kStretch + 16;           // not a power of two, whose rows would fall into one set of the cache

    // Some outputs, the inputs that they read, and those of either side that are theirs to write.
    struct Strip {
        Axis::Part part;
        Range outputs, written;
    };

    // So many planes at once, in strips where fewer of them would fit; says no where too much of these would be done twice.
    bool cut(const Axis& axis, int64_t planes, double fitting) {
        const double rows = double(axis.input_size()) * fitting / double(planes);
        const bool whole = double(planes) <= fitting;
        if (!whole && rows < 4 * double(axis.longest_window())) return false;
        planes_ = planes;
        const int64_t steps = gradient_ ? axis.input_size() : axis.output_size();
        const int64_t strips = whole ? 1 : int64_t(double(axis.input_size()) / rows) + 1;
        for (int64_t i = 0; i < strips; ++i)
            if (const Range written{steps * i / strips, steps * (i + 1) / strips}; !written.empty()) add(axis, written);
        return true;
    }
    void add(const Axis& axis, Range written) {
        if (gradient_ && written.size() == axis.input_size()) {
            strips_.push_back({{axis, 0, axis.input_size()}, {0, axis.output_size()}, written});
        } else {
            const Range outputs = gradient_ ? Side{&axis, true}.range(written) : written;
            strips_.push_back({axis.part(outputs.first, outputs.last), outputs, written});
        }
        const Strip& strip = strips_.back();
        most_ = {std::max(most_[0], strip.part.stop - strip.part.start), std::max(most_[1], strip.outputs.size())};
    }
    struct Rooms {
        Rooms(const Turning& job, Arena& arena) {
            for (std::size_t i = 0; i < count; ++i) {
                const Turned& array = job.arrays_[i];
                const int64_t elements = job.most_[array.output] * job.slice_[array.output];
                if (array.data) places[i] = arena.take<std::byte>(job.planes_ * elements * array.bytes);
            }
            staging = arena.take<std::byte>(kTogether * kPitch * 8);
        }
        std::array<std::byte*, count> places{};
        std::byte* staging;
    };

    template <class Function>
    static void with_raw(int64_t bytes, const Function& function) {
        switch (bytes) {
            case 1: return function(int8_t());
            case 2: return function(int16_t());
            case 4: return function(int32_t());
            default: return function(int64_t());
        }
    }
    void take(const Turned& array, const Strip& strip, Range planes, std::byte* scratch) const {
        const Range all = array.output ? strip.outputs : Range{strip.part.start, strip.part.stop};
        const int64_t plane = plane_[array.output], slice = slice_[array.output];
        with_raw(array.bytes, [&](auto raw) {
            using Raw = decltype(raw);
            const Raw* from = static_cast<const Raw*>(array.data) + planes.first * plane + all.first * slice;
            turn(reinterpret_cast<Raw*>(scratch), planes.size(), from, plane, planes.size(), all.size() * slice);
        });
    }
    // By way of `staging`, past the caches where the result is large.
    void give(const Turned& array, const Strip& strip, Range planes, const std::byte* scratch, std::byte* staging) const {
        const int64_t plane = plane_[array.output], slice = slice_[array.output];
        const Range made = array.output ? strip.outputs : Range{strip.part.start, strip.part.stop};
        // What no window reaches is 0.
        Range given{std::max(strip.written.first, made.first), std::min(strip.written.last, made.last)};
        if (given.empty()) given = {strip.written.first, strip.written.first};
        const auto zero = [&](Range slices) {
            for (int64_t p = planes.first; p < planes.last && !slices.empty(); ++p)
                std::memset(static_cast<std::byte*>(const_cast<void*>(array.data)) + (p * plane + slices.first * slice) * array.bytes, 0,
                            std::size_t(slices.size() * slice * array.bytes));
        };
        zero({strip.written.first, given.first}), zero({given.last, strip.written.last});
        if (given.empty()) return;
        const int64_t before = (given.first - made.first) * slice, elements = given.size() * slice;
        const bool streams = is_streamed(traffic_);
        with_raw(array.bytes, [&](auto raw) {
            using Raw = decltype(raw);
            const int64_t all = planes.size();
            const Raw* from = reinterpret_cast<const Raw*>(scratch) + before * all;
            Raw* staged = reinterpret_cast<Raw*>(staging);
            const auto copy = [&](Raw* to, const Raw* values, int64_t length) {
                if (streams)
                    stream_copy(to, values, length, true);
                else
                    copy_row(to, values, length);
            };
            for (int64_t p = 0; p < all; p += kTogether) {
                const int64_t together = std::min(kTogether, all - p);
                Raw* to = static_cast<Raw*>(const_cast<void*>(array.data)) + (planes.first + p) * plane + given.first * slice;
                const bool follow = elements == plane && plane <= kStretch;  // planes lie one after the other
                for (int64_t at = 0; at < elements; at += kStretch) {
                    const int64_t length = std::min(kStretch, elements - at), pitch = follow ? length : kPitch;
                    turn(staged, pitch, from + at * all + p, all, length, together);
                    for (int64_t i = 0; i < (follow ? 1 : together); ++i)
                        copy(to + i * plane + at, staged + i * pitch, follow ? together * length : length);
                }
            }
        });
        if (streams) stream_fence();
    }

    const Layout& layout_;
    const int workers_;
    const bool gradient_;
    const std::size_t cut_;  // the axis that is cut
    const std::array<Turned, count> arrays_;
    int64_t planes_ = 0, traffic_ = 0;
    // Of input and output: elements of a plane, elements of one index of the axis that is cut, most indices of a strip.
    std::array<int64_t, 2> plane_{}, slice_{}, most_{};
    std::vector<Strip> strips_;
};

// Runs an average or its gradient, run(part of the call), on turned planes; says no where that is not possible.
template <class Run>
bool run_turned(const AverageCall& call, bool gradient, const Run& run) {
    const int64_t source_bytes = item_size(call.kind), destination_bytes = item_size(call.destination_kind);
    const std::array<Turned, 2> arrays{{{call.source, source_bytes, gradient, false}, {call.destination, destination_bytes, !gradient, true}}};
    const Turning turning(call.layout, call.workers, gradient, arrays);
    if (!turning.planes()) return false;
    turning.run([&](const Layout& layout, const auto& places) -> int64_t {
        AverageCall part = call;
        part.layout = layout, part.workers = 1, part.source = places[0], part.destination = places[1];
        return run(part), -1;
    });
    return true;
}

}  // namespace poolgrad::POOLGRAD_ISA
