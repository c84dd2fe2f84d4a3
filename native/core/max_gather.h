// Gradients of maxima, gathered: each output that covers an element is asked whether its winner is this one. Registers of an inner run
// are compared with one code; rows of an irregular width are picked; windows that do not overlap are dealt out.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class V, class C>
class MaxGather {
    using Winners = WinnerRows<S, V, C>;
    using A = MaxSum<S, V, C>;
    using Own = LoneSum<S>;

  public:
    static constexpr int64_t kMostTaps = 16;

    MaxGather(Winners& winners, const MaxBoxes& boxes, bool picks, bool apart)
        : winners_(winners), call_(winners.call()), space_(winners.space()), boxes_(boxes), picks_(picks), apart_(apart) {}

    struct Rooms : Winners::Rooms {
        Rooms(const MaxGather& job, Arena& arena) : Winners::Rooms(job.winners_, arena, job.boxes_, job.boxes_.reached, false) {
            const int64_t run = job.boxes_.tile[4], tile = job.boxes_.tile[3];
            row_size = job.boxes_.reached * run + (job.picks_ ? Picks<C>::kSlack : 0);
            const int64_t rows = job.space_.depth.longest_cover() * job.space_.height.longest_cover();  // that reach a row of destinations
            if (job.picks_ || job.call_.winner_bytes > 1) code_rows = arena.take<C>(rows * row_size);
            if (job.picks_) {
                grad_rows = arena.take<C>(rows * row_size);
                picks = Picks<C>(arena, tile);
            }
            covers = arena.take<Range>(tile);
            column_codes = arena.take<C>(job.space_.width.longest_cover() * job.column_pitch());
            row_holds = arena.take<int64_t>(kMostTaps);
            if (job.boxes_.stream) staging = arena.take<S>(job.staging());
        }
        int64_t row_size;    // codes of one row
        int64_t* row_holds;  // (d, h) of code_rows
        C *code_rows = nullptr, *grad_rows = nullptr;
        Picks<C> picks;      // of destinations from output rows
        Range picked{0, 0};  // these destinations
        Range* covers;       // the outputs that reach each
        C* column_codes;     // of a destination in the window of its t-th output, t-th row by t-th row
        S* staging = nullptr;
    };

    void compute(Rooms& rooms, const Box& box) const {
        const Box outputs = winners_.outputs_of(box);
        winners_.prepare(rooms, outputs.width);
        prepare_columns(rooms, box.width, outputs.width);
        Writer<S> writer(static_cast<S*>(call_.destination), rooms.staging, staging());
        winners_.each_plane(rooms, box.outer, outputs, [&](int64_t outer, const CodeView& codes) {
            gather(rooms, writer, box, outer, outputs.width, codes);
        });
        writer.finish();
    }

  private:
    // Room for what a writer is given at once, rows of windows apart or runs of a row, and for what does not fill a line.
    int64_t staging() const {
        const int64_t most = apart_ || picks_ ? boxes_.tile[3] * boxes_.tile[4] : std::max<int64_t>(boxes_.tile[4], 1024);
        return most + 512 / int64_t(sizeof(S));
    }
    int64_t column_pitch() const { return boxes_.tile[3] + kLanes<C>; }  // from row to row of column_codes

    void prepare_columns(Rooms& rooms, Range columns, Range outputs) const {
        if (rooms.picked == columns) return;
        rooms.picked = columns;
        if constexpr (kWords<S, V>)
            if (picks_) rooms.picks.prepare(columns.size(), 1, [&](int64_t i) { return space_.width.cover(columns.first + i).from(outputs.first); });
        const int64_t pitch = column_pitch();
        std::fill_n(rooms.column_codes, space_.width.longest_cover() * pitch, C(0));
        for (int64_t w = columns.first; w < columns.last; ++w) {
            const Range cover = rooms.covers[w - columns.first] = space_.width.cover(w);
            for (int64_t x = cover.first; x < cover.last; ++x)
                rooms.column_codes[(x - cover.first) * pitch + w - columns.first] = C(uint64_t(w - space_.width.window(x).first) * space_.step[2]);
        }
    }

    // An output row that reaches a destination row: its gradients, its codes, and the code of this row at the window's start.
    struct Tap {
        const S* grads;
        const C* picked;  // the same as bits of A, where they are picked
        const C* codes;
        const uint8_t* bytes;  // the codes as they are stored, where they are dealt
        C base;
    };

    void gather(Rooms& rooms, Writer<S>& writer, const Box& box, int64_t outer, Range ws, const CodeView& codes) const {
        const int64_t run = box.inner.size(), length = box.width.size() * run;
        const bool joined = run == space_.inner, bytes = !picks_ && codes.bytes == 1;  // compared as they are stored
        const bool dealt = bytes && joined && apart_ && run >= kLanes<Own>;
        std::fill_n(rooms.row_holds, kMostTaps, -1);
        const int64_t heights = space_.height.longest_cover();
        for (int64_t d = box.depth.first; d < box.depth.last; ++d)
            for (int64_t h = box.height.first; h < box.height.last; ++h) {
                Tap taps[kMostTaps];
                int count = 0;
                const Range ds = space_.depth.cover(d), hs = space_.height.cover(h);
                for (int64_t z = ds.first; z < ds.last; ++z)
                    for (int64_t y = hs.first; y < hs.last; ++y) {
                        const int64_t place = z % space_.depth.longest_cover() * heights + y % heights, key = z * space_.height.output_size() + y;
                        C* row = bytes ? nullptr : rooms.code_rows + place * rooms.row_size;
                        const S* grads = static_cast<const S*>(call_.grad) + space_.output_at(outer, z, y, ws.first) + box.inner.first;
                        C* picked = picks_ ? rooms.grad_rows + place * rooms.row_size : nullptr;
                        const uint8_t* stored = static_cast<const uint8_t*>(codes.data) + (bytes ? codes.index(z, y, ws.first) : 0);
                        if (rooms.row_holds[place] != key && bytes) {
                            winners_.check(rooms, stored, codes.pitch_width, outer, z, y, ws, box.inner);
                        } else if (rooms.row_holds[place] != key) {
                            winners_.read_row(rooms, codes, outer, z, y, ws, box.inner, row);
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
                else if (bytes)
                    gather_row(rooms, writer, at, box.width.size(), run, ws.first, taps, count, &Tap::bytes, codes.pitch_width);
                else
                    gather_row(rooms, writer, at, box.width.size(), run, ws.first, taps, count, &Tap::codes, run);
            }
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
                    const auto code = load<LoneCode<S>, lanes()>(tap->bytes + (x - ws.first) * run + at);
                    store<Own, lanes()>(there + at, lone_if<S, lanes()>(code, here, lone<S, lanes()>(tap->grads + (x - ws.first) * run + at)));
                });
            }
        }
        zero_until(box.width.last);
    }

    static void read_grads(C* to, const S* from, int64_t count) {
        each_column<A>(count, [=](auto lanes_of, int64_t at) POOLGRAD_LAMBDA {
            constexpr int lanes = decltype(lanes_of)::value;
            store<C, lanes>(to + at, bit_copy<Vector<C, lanes>>(load<A, lanes>(from + at)));
        });
    }
    // A row of destinations of an irregular axis.
    POOLGRAD_NOINLINE void pick_row(const Rooms& rooms, int64_t columns, const Tap* taps, int count, S* to) const {
        constexpr int lanes = kLanes<C>;
        const int64_t pitch = column_pitch();
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
    // A row of destinations from index `at` on, run by run.
    template <class W>
    POOLGRAD_NOINLINE void gather_row(const Rooms& rooms, Writer<S>& writer, int64_t at, int64_t columns, int64_t run, int64_t first, const Tap* taps,
                                      int count, const W* Tap::*codes, int64_t pitch) const {
        constexpr int lanes = kLanes<A>;
        const int64_t inner = space_.inner, code_pitch = column_pitch();
        for (int64_t column = 0; column < columns; ++column, at += inner) {
            Place<W> places[kMostTaps];
            int place_count = 0;
            const int64_t before = rooms.covers[column].first - first, covers = rooms.covers[column].size();
            for (int i = 0; i < count; ++i) {
                const S* grads = taps[i].grads + before * inner;
                const W* row = taps[i].*codes + before * pitch;
                const C* code = rooms.column_codes + column;
                for (int64_t x = 0; x < covers; ++x, grads += inner, row += pitch, code += code_pitch)
                    places[place_count++] = {grads, row, C(taps[i].base + *code)};
            }
            S* const to = writer.row(at, run);
            const auto part = [&](auto lanes_of, auto registers, int64_t from) POOLGRAD_LAMBDA {
                gather_places<lanes_of()>(places, place_count, to, from, std::make_index_sequence<registers()>());
            };
            int64_t done = 0;
            for (; done + 4 * lanes <= run; done += 4 * lanes) part(Constant<lanes>(), Constant<4>(), done);
            if (run >= 2 * lanes)  // the last registers overlap those before
                for (; done < run; done += 2 * lanes) part(Constant<lanes>(), Constant<2>(), std::min(done, run - 2 * lanes));
            else if (run >= lanes)
                for (; done < run; done += lanes) part(Constant<lanes>(), Constant<1>(), std::min(done, run - lanes));
            else
                for (; done < run; ++done) part(Constant<1>(), Constant<1>(), done);
        }
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

    Winners& winners_;
    const MaxCall& call_;
    const MaxSpace space_;
    const MaxBoxes boxes_;
    const bool picks_;  // inner is 1 and width irregular: a register of destinations is picked at a time
    const bool apart_;  // no windows overlap
};

}  // namespace poolgrad::POOLGRAD_ISA
