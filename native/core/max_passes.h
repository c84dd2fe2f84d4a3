// Maxima axis by axis: rows of the source along width, kept in a ring; these along height; these along depth.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// values, codes <- the first maximum of rows of maxima so far, from the index `first` on; values are turned.
template <bool coded, class V, class C>
POOLGRAD_NOINLINE void best_of_best(const BestRow<V, C>* rows, int64_t count, int64_t first, int64_t length, bool nan, Turn<V> turn,
                                    V* values, C* codes) {
    const auto fold = [&](auto careful, auto terms) POOLGRAD_LAMBDA {
        BestRow<V, C> few[careful() ? 1 : 3];  // where there are but three, they are kept in registers
        constexpr bool constant = !std::is_same_v<decltype(terms), int64_t>;
        if constexpr (constant) std::copy_n(rows, 3, few);
        const BestRow<V, C>* const all = constant ? few : rows;
        each_column<V>(length, [&](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            Vector<V, lanes> best = load<V, lanes>(all[0].values + first + at);
            Vector<C, lanes> code{};
            const auto code_of = [&](int64_t t) POOLGRAD_LAMBDA {
                return Vector<C, lanes>(load<C, lanes>(all[t].codes + first + at) + spread<C, lanes>(all[t].add));
            };
            if constexpr (coded) code = code_of(0);
            for (int64_t t = 1; t < terms; ++t) {
                const Vector<V, lanes> x = load<V, lanes>(all[t].values + first + at);
                if constexpr (coded || careful()) {
                    const Mask<V, lanes> mask = careful() ? better<V, lanes>(x, best) : Mask<V, lanes>(x > best);
                    if constexpr (coded) code = select<C, lanes>(mask, code_of(t), code);
                    best = careful() ? select<V, lanes>(mask, x, best) : larger<V, lanes>(x, best);
                } else {
                    best = larger<V, lanes>(x, best);
                }
            }
            store<V, lanes>(values + at, turn.template turn<lanes>(best));
            if constexpr (coded) store<C, lanes>(codes + at, code);
        });
    };
    if constexpr (std::is_floating_point_v<V>) {
        if (nan) return fold(std::true_type(), count);
        if (count == 3) return fold(std::false_type(), Constant<3>());
    }
    fold(std::false_type(), count);
}

// A box of outputs of one outer index, or of kPlanes of them side by side. The last pass may write where the results belong.
template <class S, class V, class C, bool coded>
class Passes {
    using Width = AlongWidth<S, V, C, coded>;
    static constexpr int64_t kRows = 64;                    // of maxima that are kept, along height; half as many along depth
    static constexpr int64_t kPiece = coded ? 1024 : 4096;  // elements of a row that are made at once, and up to twice as many
    static constexpr int64_t kKept = 768 << 10;             // bytes of rows that are kept

  public:
    Passes(const MaxCall& call, const MaxSpace& space, const Way<S, V>& way)
        : space_(space), as_found_(call, Type<S>()), used_(!way.one_pass()), run_(way.run), tile_(way.tile), width_(call, space, way) {
        as_found_.mask = 0;
        constexpr int64_t others = Shared::kCount - 1;
        const Rule* down = space.height.rule();
        shares_height_ = kShares<S, V> && down && down->stride == 1 && down->window > others && down->window + others <= kRows;
        ring_rows_ = std::min(space.height.longest_window() + (shares_height_ ? others : 0), kRows);
        depth_rows_ = std::min(space.depth.longest_window(), kRows / 2);
        constexpr int64_t bytes = int64_t(sizeof(V) + (coded ? sizeof(C) : 0));
        // Whole rows are read fastest: as long as those kept stay in the second cache, and there are boxes for all workers.
        if (way.passes() && !way.line && run_ == space.inner && ring_rows_ > 1) {
            const int64_t columns = std::max<int64_t>(1, space.width.output_size());
            const int64_t kept = std::min(kKept / (ring_rows_ * bytes) / (depth_rows_ > 1 ? 4 : 1), 2 * Way<S, V>::kRoom * int64_t(sizeof(V)));
            const int64_t boxes = call.workers > 1 ? divide_up(4 * call.workers, std::max<int64_t>(1, space.outer)) : 1;
            const int64_t fewest = divide_up(columns, std::max(tile_, kept / run_)), most = divide_up(columns, tile_);
            tile_ = divide_up(columns, std::max(fewest, std::min(most, boxes)));
        }
        // Neighbouring blocks of heights share source rows: as high as their planes stay there too.
        block_ = depth_rows_ > 1 && !way.bundled ? std::clamp<int64_t>(kKept / (depth_rows_ * row_size() * bytes), 4, 32) : 1;
    }

    int64_t tile() const { return tile_; }
    int64_t block() const { return block_; }
    int64_t row_size() const { return tile_ * run_; }
    int64_t piece_size() const { return std::min(row_size(), 2 * kPiece); }
    Turn<V> as_found() const { return as_found_; }

    struct Rooms {
        Rooms(const Passes& job, Arena& arena) : width(job.width_, arena) {
            if (!job.used_) return;
            const int64_t size = job.pitch();
            ring_values = arena.take<V>(job.ring_rows_ * size), ring_codes = arena.take<C>(coded ? job.ring_rows_ * size : 0);
            ring_holds = arena.take<int64_t>(job.ring_rows_);
            const int64_t planes = job.block_ > 1 ? job.depth_rows_ * job.block_ : 0;
            plane_values = arena.take<V>(planes * size), plane_codes = arena.take<C>(coded ? planes * size : 0);
            plane_holds = arena.take<int64_t>(planes);
            const int64_t results = job.piece_size() * (job.shares_height_ ? Shared::kCount : 1);
            values = arena.take<V>(results), codes = arena.take<C>(results);
            const bool too_long[2] = {job.space_.height.longest_window() > job.ring_rows_, job.space_.depth.longest_window() > job.depth_rows_};
            for (int i = 0; i < 2; ++i)
                partial_values[i] = arena.take<V>(too_long[i] ? size : 0), partial_codes[i] = arena.take<C>(too_long[i] ? size : 0);
        }
        typename Width::Rooms width;
        V *ring_values = nullptr, *plane_values = nullptr;
        C *ring_codes = nullptr, *plane_codes = nullptr;
        int64_t *ring_holds = nullptr, *plane_holds = nullptr;
        V *values = nullptr, *partial_values[2] = {};  // values: pieces of results; partial: of windows too long for one pass
        C *codes = nullptr, *partial_codes[2] = {};
    };

    // to(d, h, i, at) tells where some elements of a row go, the i-th of those made together, and then made(d, h, at, length, that place,
    // codes) that they are there: depth by depth, but for windows of several depths in blocks of heights.
    using To = Reference<V*(int64_t, int64_t, int64_t, int64_t)>;
    using Made = Reference<void(int64_t, int64_t, int64_t, int64_t, V*, C*)>;
    void run(Rooms& rooms, int64_t outer, const Box& box, Turn<V> turn, To to, Made made) const {
        width_.begin(rooms.width, box);
        const int64_t length = box.width.size() * rooms.width.inner.size();
        int64_t d = 0, h = 0;
        const auto place = [&](int64_t i, int64_t at) { return Both{to(d, h + i, i, at), rooms.codes + i * piece_size()}; };
        const auto done = [&](int64_t i, int64_t at, int64_t count, Both found) { made(d, h + i, at, count, found.values, found.codes); };
        if (block_ == 1) {
            for (d = box.depth.first; d < box.depth.last; ++d) {
                std::fill_n(rooms.ring_holds, ring_rows_, -1);
                const int64_t z = space_.depth.window(d).first;
                for (h = box.height.first; h < box.height.last;)
                    h += along_height(rooms, outer, z, box.height.first, {h, box.height.last}, length, turn, place, done);
            }
            return;
        }
        for (int64_t first = box.height.first; first < box.height.last; first += block_) {
            const Range heights{first, std::min(first + block_, box.height.last)};
            std::fill_n(rooms.plane_holds, depth_rows_ * block_, -1);
            for (d = box.depth.first; d < box.depth.last; ++d)
                for (h = heights.first; h < heights.last; ++h) along_depth(rooms, outer, d, h, heights, length, turn, place, done);
        }
    }

  private:
    // From row to row that is kept: an odd number of lines, or they would fall into few sets of the first cache.
    int64_t pitch() const {
        constexpr int64_t line = 64 / int64_t(sizeof(V));
        return (divide_up(row_size(), line) | 1) * line;
    }

    struct Both {
        V* values;
        C* codes;
    };
    using Place = Reference<Both(int64_t, int64_t)>;
    using Done = Reference<void(int64_t, int64_t, int64_t, Both)>;
    // Calls piece(at, length) for all of a row.
    template <class Piece>
    static void in_pieces(int64_t length, const Piece& piece) {
        for (int64_t at = 0, count; at < length; at += count) {
            count = length - at <= 2 * kPiece ? length - at : kPiece;
            piece(at, count);
        }
    }

    // The first row of outputs, or some if they share: returns how many. to(i, at) tells where the elements of row i from `at` on go, and
    // done(i, at, length, there) that they are. Rows are folded in portions of the ring's size, the maxima so far going first into the next
    // portion. `start`: that of the box.
    int64_t along_height(Rooms& rooms, int64_t outer, int64_t d, int64_t start, Range heights, int64_t length, Turn<V> turn, Place to,
                         Done done) const {
        BestRow<V, C> rows[kRows + 1];
        if constexpr (kShares<S, V>) {
            Shared shared;
            // The last few share with some that are there already.
            const int64_t there = std::max<int64_t>(0, Shared::kCount - heights.size());
            if (shares_height_ && length >= kLanes<V> && heights.first - there >= start &&
                shared.find(space_.height, {heights.first - there, heights.last})) {
                const Range all = shared.all();
                for (int64_t y = all.first; y < all.last; ++y) rows[y - all.first] = ring_row(rooms, outer, d, y, all.first);
                if (!rooms.width.nan) {
                    in_pieces(length, [&](int64_t at, int64_t count) {
                        Both places[Shared::kCount];
                        for (int64_t i = there; i < Shared::kCount; ++i) places[i] = to(i - there, at);
                        best_of_shared(shared, rows, at, count, turn, int(there), places);
                        for (int64_t i = there; i < Shared::kCount; ++i) done(i - there, at, count, places[i]);
                    });
                    return Shared::kCount - there;
                }
            }
        }
        const Range window = space_.height.window(heights.first);
        const auto row = [&](int64_t y) { return ring_row(rooms, outer, d, y, window.first); };
        fold_portions(rooms, 0, window, ring_rows_, length, turn, row, to, done);
        return 1;
    }
    void fold_portions(Rooms& rooms, int which, Range window, int64_t most, int64_t length, Turn<V> turn,
                       Reference<BestRow<V, C>(int64_t)> row, Place to, Done done) const {
        BestRow<V, C> rows[kRows + 1];
        for (int64_t first = window.first; first < window.last; first += most) {
            int64_t count = 0;
            const Both partial{rooms.partial_values[which], rooms.partial_codes[which]};
            if (first != window.first) rows[count++] = {partial.values, partial.codes, C(0)};
            for (int64_t y = first; y < std::min(first + most, window.last); ++y) rows[count++] = row(y);
            if (first + most < window.last) {
                best_of_best<coded>(rows, count, 0, length, rooms.width.nan, as_found(), partial.values, partial.codes);
                continue;
            }
            in_pieces(length, [&](int64_t at, int64_t pieces) {
                const Both found = to(0, at);
                best_of_best<coded>(rows, count, at, pieces, rooms.width.nan, turn, found.values, found.codes);
                done(0, at, pieces, found);
            });
        }
    }
    BestRow<V, C> ring_row(Rooms& rooms, int64_t outer, int64_t d, int64_t y, int64_t start) const {
        const int64_t place = y % ring_rows_;
        V* row = rooms.ring_values + place * pitch();
        C* codes = rooms.ring_codes + place * pitch();
        if (rooms.ring_holds[place] != y) width_.find(rooms.width, outer, d, y, row, codes);
        rooms.ring_holds[place] = y;
        return {row, codes, C(uint64_t(y - start) * space_.step[1])};
    }
    // Without NaN; those before `there` are not wanted.
    POOLGRAD_NOINLINE void best_of_shared(const Shared& shared, const BestRow<V, C>* rows, int64_t from, int64_t length, Turn<V> turn,
                                          int there, const Both* to) const {
        constexpr int lanes = kLanes<V>;
        const int64_t first = shared.all().first;
        fold_in_order<coded, V, C>(
            shared, length, C(space_.step[1]),
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return load<V, lanes>(rows[y - first].values + from + at); },
            [&](int64_t at, int64_t y) POOLGRAD_LAMBDA { return load<C, lanes>(rows[y - first].codes + from + at); },
            [&](int64_t at, int i, Vector<V, lanes> best, Vector<C, lanes> code) POOLGRAD_LAMBDA {
                if (i < there) return;
                store<V, lanes>(to[i].values + at, turn.template turn<lanes>(best));
                if constexpr (coded) store<C, lanes>(to[i].codes + at, code);
            });
    }

    void along_depth(Rooms& rooms, int64_t outer, int64_t d, int64_t h, Range heights, int64_t length, Turn<V> turn, Place to, Done done) const {
        const Range window = space_.depth.window(d);
        fold_portions(
            rooms, 1, window, depth_rows_, length, turn,
            [&](int64_t z) {
                const int64_t start = z % depth_rows_ * block_;
                const auto place = [&](int64_t y, int64_t at) {
                    const int64_t index = (start + y - heights.first) * pitch() + at;
                    return Both{rooms.plane_values + index, rooms.plane_codes + index};
                };
                if (rooms.plane_holds[start + h - heights.first] != z) {
                    std::fill_n(rooms.ring_holds, ring_rows_, -1);
                    for (int64_t y = heights.first; y < heights.last;)
                        y += along_height(
                            rooms, outer, z, heights.first, {y, heights.last}, length, as_found(),
                            [&](int64_t i, int64_t at) { return place(y + i, at); }, [](int64_t, int64_t, int64_t, Both) {});
                    std::fill_n(rooms.plane_holds + start, heights.size(), z);
                }
                const Both row = place(h, 0);
                return BestRow<V, C>{row.values, row.codes, C(uint64_t(z - window.first) * space_.step[0])};
            },
            to, done);
    }

    const MaxSpace& space_;
    Turn<V> as_found_;
    bool used_, shares_height_;
    int64_t run_, tile_, ring_rows_, depth_rows_, block_;
    const Width width_;
};

}  // namespace poolgrad::POOLGRAD_ISA
