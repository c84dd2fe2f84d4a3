// Averages of small windows where inner is 1 and rows are short, irregular or have strides of 3 and more. All rows of outputs are one list: for some at
// a time the rows of the source are summed down into the first cache, then these sums along width, a register of windows at a time.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class A>
class PartAverages : Sides {
    static constexpr int lanes = kLanes<A>;
    using Cell = Vector<A, lanes>;

  public:
    explicit PartAverages(const AverageCall& call)
        : Sides(call, false), wide_(width_.sources()), outputs_(width_.destinations()), plane_rows_(depth_.destinations() * height_.destinations()) {}

    // `small_windows`: also where these have a way of their own (small.h), which is faster for longer rows.
    bool usable(bool small_windows) const {
        if (small_windows && wide_ >= kShort) return false;
        if (inner_ != 1 || wide_ > 2 * kElements || plane_rows_ > kPlaneRows || width_.longest() > kPartColumns) return false;
        if (depth_.longest() > kBlock || height_.longest() > kBlock || rule_.stride == 1) return false;
        // Rows of hardly a register are faster turned, and picked where irregular windows overlap as far as they go on.
        if (wide_ < (!can_turn(call_.layout) ? lanes : rule_.stride > 2 ? kLeast - 4 : kLeast) || (!width_.axis->rule() && 9 * outputs_ > 5 * wide_)) return false;
        double divisor = 1;
        for (const Side& side : {depth_, height_, width_}) divisor *= double(side.axis->largest_divisor());
        return divisor <= kExact;
    }

    void run(int64_t traffic) {
        pitch_ = divide_up(wide_ + kPartColumns, lanes) * lanes;
        together_ = std::clamp<int64_t>(std::min(kElements / pitch_, kResults / outputs_), 1, std::max<int64_t>(1, call_.layout.outer * plane_rows_));
        if (together_ > plane_rows_) together_ = together_ / plane_rows_ * plane_rows_;
        Tiling tiling{{call_.layout.outer * plane_rows_, 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
        balance(tiling, call_.workers, divide_up(traffic, tiling.extent[0]));
        const bool stream = is_streamed(traffic);
        const Rooms measure(*this, nullptr, stream);
        far_ = is_far(traffic);
        const auto same = [](const Axis& axis) {
            return axis.rule() && axis.divisor(0) == axis.rule()->window && axis.divisor(axis.output_size() - 1) == axis.rule()->window;
        };
        uniform_ = same(*depth_.axis) && same(*height_.axis) && same(*width_.axis);
        with_columns(width_.longest(), [&](auto columns) {
            run_boxes(tiling, call_.workers, traffic, measure.arena.used(), [&](const Box& box, std::byte* scratch) {
                Rooms rooms(*this, scratch, stream);
                compute<columns()>(rooms, box.outer);
            });
        });
    }

  private:
    static constexpr int64_t kElements = 2048;   // of sums that are kept
    static constexpr int64_t kLeast = 16, kShort = 40;  // columns
    static constexpr int64_t kResults = 256;     // that are made together
    static constexpr int64_t kPlaneRows = 4096;  // rows of outputs in a plane, or in several depths
    static constexpr double kExact = 0x1p24;     // divisors whose products are exact

    // A row of outputs: where its windows begin in the planes of the source, how many planes and rows these have; and how many of the
    // rows that follow have as many.
    struct Row {
        int64_t from;
        int32_t planes, rows;
        int64_t alike;
        A divisor;
    };
    struct Rooms {
        Rooms(const PartAverages& job, std::byte* base, bool stream) : arena(base) {
            rows = arena.take<Row>(job.plane_rows_);
            firsts = arena.take<int32_t>(job.made() + lanes), counts = arena.take<int32_t>(job.made() + lanes);
            sums = arena.take<A>(job.together_ * job.pitch_), divisors = arena.take<A>(job.made() + lanes);
            divided_by = arena.take<A>(job.together_);
            if (stream) staging = arena.take<S>(job.staging_size());
        }
        Arena arena;
        Row* rows;                // of a plane
        int32_t *firsts, *counts;  // of the windows made together: where they begin in the sums, and their columns
        A *sums, *divisors, *divided_by;
        S* staging = nullptr;
        bool ragged = false;
    };
    int64_t made() const { return together_ * outputs_; }
    int64_t staging_size() const { return made() + 512 / int64_t(sizeof(S)); }

    void prepare(Rooms& rooms) const {
        Row* row = rooms.rows;
        for (int64_t d = 0; d < depth_.destinations(); ++d)
            for (int64_t h = 0; h < height_.destinations(); ++h, ++row) {
                const Range zs = depth_.range(d), ys = height_.range(h);
                *row = {(zs.first * height_.sources() + ys.first) * wide_, int32_t(zs.size()), int32_t(ys.size()), 1,
                        A(depth_.axis->divisor(d) * height_.axis->divisor(h))};
            }
        while (--row > rooms.rows)
            if (row[-1].planes == row->planes && row[-1].rows == row->rows) row[-1].alike = row->alike + 1;
        for (int64_t w = 0; w < outputs_; ++w) {
            const Range window = width_.range(w);
            rooms.firsts[w] = int32_t(window.first), rooms.counts[w] = int32_t(window.size());
            rooms.ragged = rooms.ragged || window.size() != std::max<int64_t>(2, width_.longest());
        }
        for (int64_t j = outputs_; j < made() + lanes; ++j)
            rooms.firsts[j] = rooms.firsts[j - outputs_] + int32_t(j < made() ? pitch_ : 0), rooms.counts[j] = rooms.counts[j - outputs_];
        std::fill_n(rooms.divided_by, together_, A(0));
        if (uniform_) fill_row(rooms.divisors, made() + lanes, A(rooms.rows->divisor * A(width_.axis->divisor(0))));
    }

    template <int columns>
    POOLGRAD_NOINLINE void compute(Rooms& rooms, Range box) const {
        prepare(rooms);
        Writer<S> writer(static_cast<S*>(call_.destination), rooms.staging, staging_size());
        for (int64_t first = box.first; first < box.last; first += together_) {
            const int64_t rows = std::min(together_, box.last - first), count = rows * outputs_;
            sum_down(rooms, first, rows);
            S* const to = writer.row(first * outputs_, count);
            rooms.ragged ? across<columns, true>(rooms, to, count) : across<columns, false>(rooms, to, count);
        }
        writer.finish();
    }

    // The sums of some rows over depth and height, and their divisors.
    void sum_down(const Rooms& rooms, int64_t first, int64_t count) const {
        const int64_t volume = depth_.sources() * height_.sources() * wide_;
        int64_t plane = first / plane_rows_, i = first % plane_rows_;
        for (int64_t done = 0; done < count;) {
            const Row& row = rooms.rows[i];
            const int64_t alike = std::min(row.alike, count - done);
            const S* const source = static_cast<const S*>(call_.source) + plane * volume;
            A* const to = rooms.sums + done * pitch_;
            if (row.planes == 1 && row.rows == 2)
                sum_rows(Constant<1>(), Constant<2>(), &row, alike, source, to);
            else if (row.planes == 1 && row.rows == 3)
                sum_rows(Constant<1>(), Constant<3>(), &row, alike, source, to);
            else if (row.planes == 1)
                sum_rows(Constant<1>(), int64_t(row.rows), &row, alike, source, to);
            else
                sum_rows(int64_t(row.planes), int64_t(row.rows), &row, alike, source, to);
            for (int64_t k = done; k < done + alike && !uniform_; ++k)
                if (const A by = (&row)[k - done].divisor; rooms.divided_by[k] != by) {
                    rooms.divided_by[k] = by;
                    for (int64_t w = 0; w < outputs_; ++w) rooms.divisors[k * outputs_ + w] = by * A(width_.axis->divisor(w));
                }
            done += alike, i += alike;
            if (i == plane_rows_) i = 0, ++plane;
        }
    }
    template <class Planes, class Rows>
    POOLGRAD_NOINLINE void sum_rows(Planes planes, Rows rows, const Row* row, int64_t count, const S* source, A* to) const {
        const int64_t wide = wide_, plane = height_.sources() * wide;
        const S* const end = static_cast<const S*>(call_.source) + call_.layout.outer * depth_.sources() * plane;
        for (; count > 0; --count, ++row, to += pitch_) {
            const S* const from = source + row->from;
            const auto sum = [&](auto size, int64_t at) POOLGRAD_LAMBDA {
                const auto of_row = [&](int64_t y) POOLGRAD_LAMBDA {
                    const S* term = from + y * wide + at;
                    auto sum = load<A, size()>(term);
                    for (int64_t z = 1; z < planes; ++z) sum = sum + load<A, size()>(term + z * plane);
                    return sum;
                };
                auto total = of_row(0);
                for (int64_t y = 1; y < rows; ++y) total = total + of_row(y);
                store<A, size()>(to + at, total);
            };
            if (far_)
                for (int64_t z = 0; z < planes; ++z)
                    for (int64_t y = 0; y < rows; ++y) fetch_next_page(from + z * plane + y * wide, wide);
            int64_t at = 0;
            for (; at + lanes <= wide; at += lanes) sum(Constant<lanes>(), at);
            if (at == wide) continue;
            // What lies beyond a row is not used.
            const bool room = end - from >= (planes - 1) * plane + (rows - 1) * wide + at + lanes;
            if (room)
                sum(Constant<lanes>(), at);
            else
                for (; at < wide; ++at) sum(Constant<1>(), at);
        }
    }

    template <int columns, bool ragged>
    POOLGRAD_NOINLINE void across(const Rooms& rooms, S* to, int64_t count) const {
        const A *const sums = rooms.sums, *const divisors = rooms.divisors;
        const int32_t *const firsts = rooms.firsts, *const counts = rooms.counts;
        for (int64_t at = 0; at < count; at += lanes) {
            Cell total{};
            const auto add = [&](auto c, Cell term) POOLGRAD_LAMBDA {
                if constexpr (ragged) {
                    const Vector<int32_t, lanes> has = load<int32_t, lanes>(counts + at) > c();
                    term = select<A, lanes>(convert<typename BitsOf<sizeof(A)>::type, int32_t, lanes>(has), term, spread<A, lanes>(A(-0.0)));
                }
                total = c() ? total + term : term;
            };
            each_part_column<columns>(add, firsts + at, sums);
            total = total / load<A, lanes>(divisors + at);
            if (at + lanes <= count) {
                store<A, lanes>(to + at, total);
                continue;
            }
            S rest[lanes];
            store<A, lanes>(rest, total);
            std::memcpy(to + at, rest, std::size_t(count - at) * sizeof(S));
        }
    }

    const int64_t wide_, outputs_, plane_rows_;
    int64_t pitch_ = 0, together_ = 1;  // of rows of sums, and how many are made together
    bool far_ = false;                  // the source comes from memory
    bool uniform_ = false;              // all divisors are the same
};

}  // namespace poolgrad::POOLGRAD_ISA
