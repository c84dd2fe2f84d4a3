// Maxima over depth and height where inner is short, row over row: whole rows of the source, or what was found of them over depth, which is
// kept in a ring where windows along height overlap.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class V, class C, bool coded>
class DownRows {
  public:
    using Room = MaxRoom<V, C, coded>;
    static constexpr int64_t kRows = 64;  // that are folded at once

    DownRows(const MaxCall& call, const MaxSpace& space) : call_(call), space_(space), sign_(call, Type<S>()) {}

    // Plans the ring, for rows of at most so many elements.
    void keep(int64_t length) {
        const int64_t deep = space_.depth.longest_window(), high = space_.height.longest_window();
        // Windows that overlap in height share what was found over depth.
        ring_rows_ = deep > 1 && (space_.height.longest_cover() > 2 || deep * high > kRows) ? high : 0;
        // Codes are compared: they must not overflow where the last of such windows ends.
        const uint64_t most_codes = std::numeric_limits<C>::max() / 2, others = Shared::kCount - 1;
        shares_ = kShares<S, V> && ring_rows_ && high + int64_t(others) <= kRows && space_.step[0] <= most_codes / uint64_t(deep) &&
                  space_.step[1] <= most_codes / others;
        if (shares_) ring_rows_ += int64_t(others);
        ring_pitch_ = (divide_up(length + kLanes<V>, kLine) | 1) * kLine;
        // Windows that overlap in depth share too, if there is room for all rows of some depths.
        constexpr int64_t bytes = int64_t(sizeof(V) + (coded ? sizeof(C) : 0)) * Shared::kCount;
        if (shares_ && space_.depth.longest_cover() >= Shared::kCount && space_.depth.output_size() >= Shared::kCount &&
            space_.height.input_size() <= kRingBytes / (ring_pitch_ * bytes))
            ring_depths_ = Shared::kCount, ring_rows_ = space_.height.input_size();
    }
    bool keeps_rows() const { return ring_rows_ > 0; }

    struct Rooms {
        Rooms() = default;
        Rooms(const DownRows& job, Arena& arena) {
            const int64_t rows = job.ring_depths_ * job.ring_rows_;
            ring = Room::take(arena, rows * job.ring_pitch_), ring_holds = arena.take<int64_t>(rows);
        }
        Room ring;
        int64_t* ring_holds = nullptr;
        std::pair<int64_t, int64_t> ring_of{-1, -1};  // outer and first depth
        Range columns{0, 0};                          // of width
    };
    // For these columns of the source.
    void prepare(Rooms& rooms, Range columns) const { rooms.columns = columns, rooms.ring_of = {-1, -1}; }

    // The maxima of some rows of outputs, to rows `pitch` apart; false if they need the careful way.
    bool find(Rooms& rooms, int64_t outer, int64_t d, Range heights, Room to, int64_t pitch) const {
        if (space_.depth.longest_window() == 1) return one_depth(rooms, outer, d, heights, to, pitch);
        if (rooms.ring_of.first != outer || d < rooms.ring_of.second || d >= rooms.ring_of.second + ring_depths_) {
            std::fill_n(rooms.ring_holds, ring_depths_ * ring_rows_, -1);
            rooms.ring_of = {outer, std::min(d, space_.depth.output_size() - ring_depths_)};
        }
        for (int64_t h = heights.first, made = 0; h < heights.last; h += made) {
            made = some_depths(rooms, outer, d, {h, heights.last}, to.at((h - heights.first) * pitch), pitch);
            if (!made) return false;
        }
        return true;
    }

  private:
    static constexpr int64_t kLine = 64 / int64_t(sizeof(V));  // of the cache
    static constexpr int64_t kRingBytes = 512 << 10;           // of rows of several depths

    // Windows of some depths: the first row, or those that share. Returns how many, 0 if they need the careful way.
    int64_t some_depths(Rooms& rooms, int64_t outer, int64_t d, Range heights, Room to, int64_t pitch) const {
        const Range depth = space_.depth.window(d), height = space_.height.window(heights.first);
        if (!ring_rows_) return sources(rooms, outer, depth, height, to);
        Shared shared;
        const int64_t length = rooms.columns.size() * space_.inner;
        const bool shares = shares_ && length >= kLanes<V> && shared.find(space_.height, heights);
        BestRow<V, C> rows[kRows];
        for (int64_t y = height.first; y < (shares ? shared.all().last : height.last); ++y) {
            const int64_t place = (d - rooms.ring_of.second) * ring_rows_ + y % ring_rows_;
            const Room row = rooms.ring.at(place * ring_pitch_);
            if (rooms.ring_holds[place] != y && !make_row(rooms, outer, d, y, length, row)) return 0;
            rooms.ring_holds[place] = y;
            rows[y - height.first] = {row.values, row.codes, C(uint64_t(y - height.first) * space_.step[1])};
        }
        if constexpr (kShares<S, V>)
            if (shares) return first_of_shared(shared, rows, length, to, pitch), Shared::kCount;
        first_of_best<coded>(rows, height.size(), length, to.values, to.codes);
        return 1;
    }
    // The row of the ring, over depth, or that of all its depths if they share.
    bool make_row(Rooms& rooms, int64_t outer, int64_t d, int64_t y, int64_t length, Room to) const {
        Shared shared;
        const int64_t first = rooms.ring_of.second, place = y % ring_rows_;
        if constexpr (kShares<S, V>)
            if (ring_depths_ > 1 && length >= kLanes<V> && shared.find(space_.depth, {first, first + ring_depths_})) {
                const S* from = static_cast<const S*>(call_.source) + space_.input_at(outer, 0, y, rooms.columns.first);
                const bool good = fold_sources(shared, from, space_.input_at(0, 1, 0, 0), length, C(space_.step[0]),
                                               rooms.ring.at(place * ring_pitch_), ring_rows_ * ring_pitch_);
                for (int64_t i = 0; i < ring_depths_; ++i) rooms.ring_holds[i * ring_rows_ + place] = good ? y : -1;
                return good;
            }
        return sources(rooms, outer, space_.depth.window(d), {y, y + 1}, to);
    }
    // Windows that share, of source rows `row` apart, to rows `pitch` apart; false if they need the careful way.
    POOLGRAD_NOINLINE bool fold_sources(const Shared shared, const S* from, int64_t row, int64_t length, C step, Room to, int64_t pitch) const {
        constexpr int lanes = kLanes<V>;
        using Bits = typename Turn<V>::Bits;
        const Turn<V> sign = sign_;
        Odd<V> odd;
        fold_shared<coded>(
            shared, length, to.values, to.codes, pitch, step,
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA {
                const Vector<V, lanes> raw = load<V, lanes>(from + y * row + at);
                if constexpr (std::is_floating_point_v<V>) odd.template note<lanes>(unordered<V, lanes>(raw, raw));
                if constexpr (std::is_floating_point_v<V> && !coded)
                    odd.template note<lanes>(bit_copy<Vector<Bits, lanes>>(raw) == spread<Bits, lanes>(std::numeric_limits<Bits>::min()));
                return sign.template turn<lanes>(raw);
            },
            [](int64_t, int64_t) POOLGRAD_LAMBDA { return Vector<C, lanes>{}; },
            [](auto x, auto best, auto, auto) POOLGRAD_LAMBDA { return x > best; });
        return !odd.seen();
    }
    POOLGRAD_NOINLINE void first_of_shared(Shared shared, const BestRow<V, C>* rows, int64_t length, Room to, int64_t pitch) const {
        constexpr int lanes = kLanes<V>;
        const int64_t first = shared.all().first;
        for (Range& window : shared.windows) window = {window.first - first, window.last - first};
        fold_shared<coded>(
            shared, length, to.values, to.codes, pitch, C(space_.step[1]),
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return load<V, lanes>(rows[y].values + at); },
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return load<C, lanes>(rows[y].codes + at); },
            [](auto x, auto best, auto other, auto code) POOLGRAD_LAMBDA { return (x > best) | ((x == best) & (other < code)); });
    }
    POOLGRAD_NOINLINE bool sources(const Rooms& rooms, int64_t outer, Range depth, Range height, Room to) const {
        const S* candidates[kRows];
        C added[kRows];  // that their places add
        int count = 0;
        const int64_t row = space_.width.input_size() * space_.inner;
        for (int64_t z = depth.first; z < depth.last; ++z) {
            const S* from = static_cast<const S*>(call_.source) + space_.input_at(outer, z, height.first, rooms.columns.first);
            C code = C(uint64_t(z - depth.first) * space_.step[0]);
            for (int64_t y = height.first; y < height.last; ++y, from += row, code = C(code + space_.step[1]))
                candidates[count] = from, added[count++] = code;
        }
        Odd<V> odd;
        first_of_sources<coded>(
            [&](int64_t t) POOLGRAD_LAMBDA { return candidates[t]; }, [&](int64_t t) POOLGRAD_LAMBDA { return added[t]; }, count, sign_,
            rooms.columns.size() * space_.inner, to.values, to.codes, odd);
        return !odd.seen();
    }
    // Windows of one depth: all rows of a block in one go.
    POOLGRAD_NOINLINE bool one_depth(const Rooms& rooms, int64_t outer, int64_t d, Range heights, Room to, int64_t pitch) const {
        const int64_t row = space_.width.input_size() * space_.inner, length = rooms.columns.size() * space_.inner;
        const S* plane = static_cast<const S*>(call_.source) + space_.input_at(outer, space_.depth.window(d).first, 0, rooms.columns.first);
        const Turn<V> sign = sign_;
        const C step = C(space_.step[1]);
        Odd<V> odd;
        Shared shared;
        const bool far = is_far(space_.inputs() * int64_t(sizeof(S))), fetches = !far && fetches_rows(row * int64_t(sizeof(S)), 1);
        for (int64_t h = heights.first; h < heights.last; ++h, to = to.at(pitch)) {
            if constexpr (kShares<S, V>)
                if (length >= kLanes<V> && shared.find(space_.height, {h, heights.last})) {
                    if (!fold_sources(shared, plane, row, length, step, to, pitch)) return false;
                    h += Shared::kCount - 1, to = to.at((Shared::kCount - 1) * pitch);
                    continue;
                }
            const Range window = space_.height.window(h);
            // What the windows after the next read.
            for (int64_t y = 0; fetches && y < window.size(); ++y) fetch(plane + (window.last + y) * row, length);
            for (int64_t y = window.first; far && y < window.last; ++y) fetch_next_page(plane + y * row, length);
            const PitchRows<S> rows{plane + window.first * row, row};
            const auto fold = [&](auto count) POOLGRAD_LAMBDA {
                first_of_sources<coded>(
                    rows, [=](int64_t t) POOLGRAD_LAMBDA { return C(C(t) * step); }, count, sign, length, to.values, to.codes, odd);
            };
            if (window.size() == 3)
                fold(Constant<3>());
            else if (window.size() == 2)
                fold(Constant<2>());
            else
                fold(int(window.size()));
        }
        return !odd.seen();
    }

    const MaxCall& call_;
    const MaxSpace& space_;
    const Turn<V> sign_;
    bool shares_ = false;
    int64_t ring_rows_ = 0, ring_depths_ = 1, ring_pitch_ = 0;
};

}  // namespace poolgrad::POOLGRAD_ISA
