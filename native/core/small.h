// Averages of small windows where inner is 1, and the gradients of some: down and across in registers (slide.h).
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// S stored, A accumulated: for integers, their means, in lanes that just hold the sums.
template <class S, class A, bool gradient>
class SmallWindows : Sides {
    static constexpr bool integers = std::is_integral_v<A>;
    using Factor = std::conditional_t<integers, float, A>;

  public:
    explicit SmallWindows(const AverageCall& call) : Sides(call, gradient) {}

    bool usable() const {
        if constexpr (integers)
            if (call_.kind != call_.destination_kind || !sums_fit_float<S, A>(call_.layout)) return false;
        if (inner_ != 1 || !width_.axis->rule() || !is_small_window<!gradient>(rule_.stride, rule_.window) || !fills_registers()) return false;
        if (rule_.window > rule_.input_size || depth_.longest() * height_.longest() > kSlideRows) return false;
        return !gradient || (rule_.stride < 3 && rule_.window == 3 && divide_up(rule_.window, rule_.stride) <= rule_.output_size && is_covered());
    }

    void run(int64_t traffic) {
        stream_ = is_streamed(traffic);
        Tiling tiling{destinations(), {1, depth_.destinations(), height_.destinations(), std::min(fitting_tile(width_, kColumns), kColumns), 1}};
        const int64_t row_bytes = std::clamp<int64_t>(width_.sources(), 1, kColumns) * int64_t(sizeof(S));
        if (!depth_.axis->is_identity()) tiling.tile[2] = cached_heights(row_bytes);
        balance(tiling, call_.workers, divide_up(traffic, tiling.elements()));
        tile_ = tiling.tile[3];
        const Rooms measure(*this, nullptr);
        run_boxes(tiling, call_.workers, traffic, measure.arena.used(), [this](const Box& box, std::byte* scratch) {
            Rooms rooms(*this, scratch);
            Writer<S> writer(static_cast<S*>(call_.destination), rooms.staging, staging_size());
            prepare(rooms, box.width);
            with_small_window<!gradient>(rule_.stride, rule_.window, [&](auto stride, auto window) {
                for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
                    planes<decltype(stride)::value, decltype(window)::value>(rooms, writer, box, outer);
            });
            writer.finish();
        });
    }

  private:
    static constexpr int64_t kColumns = 4096;  // of a box
    static constexpr int64_t kStaged = 2048;   // results in the buffer at once, or one row
    // Forward: divisors along width, for two products of the others. Gradient: their reciprocals, one row.
    static constexpr int64_t kFactors = gradient ? 1 : 2;

    // What a destination sums along depth or height.
    struct Row {
        Range range;
        int64_t alike, advance;  // so many rows from this one on differ only in where they are, each by so many sources
        int64_t divisor;         // forward, else 1
        A weights[kSlideRows];   // in a gradient
    };
    struct Rooms {
        Rooms(const SmallWindows& job, std::byte* base) : arena(base) {
            if (job.stream_) staging = arena.take<S>(job.staging_size() + 2 * kLanes<A>);
            factors = arena.take<Factor>(kFactors * job.factors_size());
            rows = arena.take<Row>(kSlideHeights + 1);
            outside = arena.take<S>(job.depth_.longest() * job.height_.longest() * (job.reads(job.tile_) + 2 * kLanes<A>));
        }
        Arena arena;
        S* staging = nullptr;
        Factor* factors;
        Row* rows;  // of some heights, and of one depth behind
        S* outside;  // rows around which the array ends
        Range heights{0, 0};
        std::array<std::pair<int64_t, int64_t>, 2> divided_by{};  // forward: what the factors are made for, depth and height
        std::array<bool, 2> reciprocals{};
        std::size_t oldest = 0;
    };

    // Whether rows are long enough for small windows to stay in registers; shorter ones are faster turned.
    bool fills_registers() const {
        const int64_t least = rule_.stride == 1 ? 7 : rule_.window <= 2 ? 8 : 12;  // quarters of a register
        return rule_.input_size >= divide_up(least * kLanes<A>, 4);
    }
    // Elements of the buffer for results: two rows at least, so that one leaves while whole lines are kept together.
    int64_t staging_size() const { return std::max(kStaged, tile_) + 512 / int64_t(sizeof(S)); }
    // Columns that so many destinations read, or some more.
    int64_t reads(int64_t count) const { return (gradient ? count : count * rule_.stride) + rule_.window + 8 * kLanes<A>; }
    int64_t factors_size() const { return tile_ + rule_.window + 2 * kLanes<A>; }
    void prepare(Rooms& rooms, Range box) const {
        std::fill_n(rooms.factors, kFactors * factors_size(), Factor(1));
        const Range columns = width_.range(box);
        fill_weights<Factor>(width_, columns.first, columns.size(), rooms.factors + (columns.first - start(box)));
    }

    // Destinations of a gradient before the box that share its first group of `stride`.
    int64_t lead(Range box) const { return (box.first + rule_.before) % rule_.stride; }
    // The first source of a row's first register. In a gradient by 2 that of the first input that lies in two windows.
    int64_t start(Range box) const {
        if (!gradient) return box.first * rule_.stride - rule_.before;
        return (box.first + rule_.before) / rule_.stride - divide_up(rule_.window, rule_.stride) + 1 + lead(box);
    }

    template <int stride, int window>
    POOLGRAD_NOINLINE void planes(Rooms& rooms, Writer<S>& writer, const Box& box, int64_t outer) const {
        constexpr int lanes = kLanes<A>;
        if constexpr (!gradient || window == 3) {
            const int64_t wide = width_.sources(), high = height_.sources(), count = box.width.size();
            using Reader = RowReader<S, A, !gradient && stride == 2>;
            const S* const source = static_cast<const S*>(call_.source);
            const int64_t elements = call_.layout.outer * depth_.sources() * high * wide;
            const Reader reader(wide, start(box.width));
            const Range read = reader.columns(reads(count));
            const bool one_first = gradient && lead(box.width);
            // A last register may go beyond its row where what follows is written later, or belongs to nobody.
            const int64_t row = width_.destinations(), plane = height_.destinations() * row, space = depth_.destinations() * plane;
            const bool rows_follow = count == row, planes_follow = rows_follow && box.height.size() == height_.destinations();
            const bool all_follow = planes_follow && box.depth.size() == depth_.destinations(), streaming = rooms.staging;
            const Range heights = box.height;
            const Rule* down_rule = height_.axis->rule();
            // Where rows are left out, which the CPU does not foresee, those 16 windows on are fetched; with what lies between, if that is short.
            const bool leaves_out = !gradient && down_rule && down_rule->stride > down_rule->window && down_rule->stride <= 64;
            const bool short_gap = leaves_out && (down_rule->stride - down_rule->window) * wide * int64_t(sizeof(S)) <= 1024;
            const int64_t skips = leaves_out ? 16 * down_rule->stride * wide : 0;
            const int64_t fetched = leaves_out ? (short_gap ? down_rule->stride : down_rule->window) * wide : 0;
            const Range columns = width_.range(box.width);
            const bool fetches = !skips && high > 1 && fetches_rows(wide * int64_t(sizeof(S)), gradient ? 1 : stride);
            const int64_t ahead = !fetches ? 0 : gradient || !down_rule ? 2 : std::max<int64_t>(4, 2 * down_rule->stride);  // rows
            // Of short rows in several planes what lies a page further on is fetched: of one plane the CPU foresees the next rows.
            const bool short_rows = !gradient && !ahead && !skips && wide * int64_t(sizeof(S)) < 512 && depth_.longest() > 1;
            // Of windows of 3 by 2 it gains nothing.
            const bool is_fetched = !gradient && !(window == 3 && stride == 2) && !skips && is_far(elements * int64_t(sizeof(S)));
            const bool far = is_fetched && wide * int64_t(sizeof(S)) >= kLongRowBytes, later = is_fetched && !far && !short_rows;
            constexpr int overlap = window > stride ? window - stride : 0;
            const int64_t read_first = read.first;
            const int64_t most_alike = streaming ? std::max<int64_t>(1, kStaged / count) : heights.size();
            constexpr bool back = gradient && stride == 2;
            constexpr int step = back ? 2 * lanes : lanes;  // outputs made at once
            const int64_t padded = divide_up(count, step) * step, source_planes = outer * depth_.sources();
            Row *table = rooms.rows, &along_depth = table[kSlideHeights];
            for (int64_t d = box.depth.first; d < box.depth.last; ++d) {
                make_row_of(along_depth, depth_, d);
                const Range zs = along_depth.range;
                const int64_t end = streaming       ? INT64_MAX
                                    : all_follow    ? box.outer.last * space
                                    : planes_follow ? outer * space + box.depth.last * plane
                                    : rows_follow   ? outer * space + d * plane + heights.last * row
                                                    : 0;
                int64_t at = outer * space + d * plane + heights.first * row + box.width.first;
                for (int64_t h = heights.first, i = 0, alike; h < heights.last; h += alike, i += alike, at += alike * row) {
                    if (i % kSlideHeights == 0) make_rows(rooms, h, std::min(h + kSlideHeights, heights.last)), i = 0;
                    const Row& along_height = table[i];
                    const Range ys = along_height.range;
                    alike = rows_follow && !back ? std::min(along_height.alike, most_alike) : 1;
                    const int64_t advance = along_height.advance * wide, begin = ((source_planes + zs.first) * high + ys.first) * wide;
                    const int64_t last = begin + ((zs.size() - 1) * high + ys.size() - 1) * wide;
                    // Whether so many rows may be read and written in whole registers.
                    const auto inside = [&](int64_t rows) { return begin + read.first >= 0 && last + (rows - 1) * advance + read.last <= elements; };
                    const auto over = [&](int64_t rows) { return at + (rows - 1) * row + padded <= end; };
                    while (alike > 1 && !(inside(alike) && over(alike))) --alike;
                    S* to = writer.row(at, alike * count);
                    if (zs.empty() || ys.empty()) {
                        std::memset(to, 0, std::size_t(alike * count) * sizeof(S));
                        continue;
                    }
                    const Factor* factors = rooms.factors;
                    bool multiplies = false;  // by reciprocals
                    if constexpr (!gradient) {
                        const std::size_t slot = divisors_of(rooms, box.width, along_depth.divisor, along_height.divisor);
                        factors += int64_t(slot) * factors_size(), multiplies = rooms.reciprocals[slot];
                    }
                    const int shift = integers ? shift_of(along_depth.divisor, along_height.divisor) : -1;
                    const int64_t whole = over(alike) ? count : count / step * step;
                    const S* from = source + begin;
                    int64_t row_pitch = wide, plane_pitch = high * wide;
                    if (!inside(alike)) {
                        row_pitch = read.size(), plane_pitch = ys.size() * row_pitch, from = rooms.outside - read.first;
                        for (int64_t z = 0; z < zs.size(); ++z)
                            for (int64_t y = 0; y < ys.size(); ++y)
                                copy_clipped(rooms.outside + z * plane_pitch + y * row_pitch, source, elements,
                                             begin + (z * high + y) * wide + read.first, row_pitch);
                    }
                    const A *depth_weights = along_depth.weights, *height_weights = along_height.weights;
                    const auto make_row = [=, &reader](auto rows, auto planes, const S* from, S* to) POOLGRAD_LAMBDA {
                        fetch(from + skips, fetched);
                        for (int64_t z = 0; z < planes; ++z) {
                            const S* first = from + z * plane_pitch + columns.first;
                            if (later) fetch_later(first + overlap * row_pitch, (rows - overlap) * row_pitch);
                            for (int64_t y = rows; y < rows + ahead; ++y) fetch(first + y * row_pitch, columns.size());
                            for (int64_t y = 0; short_rows && y < rows; ++y) fetch_next_page(first + y * row_pitch, columns.size());
                        }
                        const auto down = [=](const auto& read) POOLGRAD_LAMBDA {
                            const auto weighed = [](auto sum, const A* weight) POOLGRAD_LAMBDA {
                                if constexpr (gradient)
                                    return sum * *weight;
                                else
                                    return sum;
                            };
                            auto total = Reader::nothing();
                            for (int y = 0; y < rows; ++y) {
                                auto sum = Reader::nothing();
                                for (int z = 0; z < planes; ++z) sum = sum + weighed(read(from + z * plane_pitch + y * row_pitch), depth_weights + z);
                                total = total + weighed(sum, height_weights + y);
                            }
                            return total;
                        };
                        const auto column = [=, &reader](int64_t k, auto filled) POOLGRAD_LAMBDA {
                            if constexpr (filled() && !gradient)
                                if (far)
                                    for (int z = 0; z < planes; ++z)
                                        for (int y = overlap; y < rows; ++y)
                                            fetch_next_page(from + z * plane_pitch + y * row_pitch + read_first + k * Reader::each, Reader::each);
                            const auto sum = reader.template column<filled()>(k, down);
                            if constexpr (gradient)
                                return sum * load<A, lanes>(factors + k * lanes);
                            else
                                return sum;
                        };
                        const auto put = [=](int64_t i, auto sum, auto is_whole) POOLGRAD_LAMBDA {
                            if constexpr (!gradient && !integers) {
                                if (window != 3 && multiplies)  // of 3, few are powers of two
                                    sum = sum * load<A, lanes>(factors + i);
                                else
                                    sum = sum / load<A, lanes>(factors + i);
                            }
                            if constexpr (integers) sum = mean_of<lanes>(sum, shift, factors + i);
                            if (is_whole() || i < whole) return store<A, lanes>(to + i, sum);
                            S rest[lanes];
                            store<A, lanes>(rest, sum);
                            std::memcpy(to + i, rest, std::size_t(count - i) * sizeof(S));
                        };
                        const auto put_both = [=](int64_t i, auto first, auto second, auto is_whole) POOLGRAD_LAMBDA {
                            if (is_whole() || i < whole) return store_zipped<A, lanes>(to + i, first, second);
                            S rest[2 * lanes];
                            store_zipped<A, lanes>(rest, first, second);
                            std::memcpy(to + i, rest, std::size_t(count - i) * sizeof(S));
                        };
                        if constexpr (back)
                            slide_back<lanes>(count, whole, one_first, reader.whole(), column, put_both);
                        else if constexpr (stride == 1)
                            slide_by_one<lanes>(count, whole, reader.whole(), column, put);
                        else if constexpr (stride == 2)
                            slide_by_two<window, lanes>(count, whole, reader.whole(), column, put);
                        else
                            slide<stride, window, lanes>(
                                count, reader.whole(), column, [](auto sum, auto term, int) POOLGRAD_LAMBDA { return sum + term; }, put);
                    };
                    const auto make = [=](auto rows, auto planes) POOLGRAD_LAMBDA {
                        for (int64_t j = 0; j < (back ? 1 : alike); ++j) make_row(rows, planes, from + j * advance, to + j * row);
                    };
                    // Numbers of rows that are known to the compiler take a third of the time; these are the most frequent.
                    constexpr int most = back ? 2 : window, many = most < 4 ? most : 1;
                    const auto is = [&](int64_t rows, int64_t planes) { return ys.size() == rows && zs.size() == planes; };
                    if (is(most, 1))
                        make(Constant<most>(), Constant<1>());
                    else if (is(many, many))
                        make(Constant<many>(), Constant<many>());
                    else if (back && is(1, 1))
                        make(Constant<1>(), Constant<1>());
                    else if (back && is(1, many))
                        make(Constant<1>(), Constant<back ? many : 1>());
                    else
                        make(int(ys.size()), int(zs.size()));
                }
            }
        }
    }
    // What a destination sums along depth or height; of heights, all those of planes that are not too high are made once.
    void make_row_of(Row& row, const Side& side, int64_t destination) const {
        row.range = side.range(destination);
        row.divisor = gradient ? 1 : side.axis->divisor(destination);
        fill_weights<A>(side, row.range.first, row.range.size(), row.weights);
    }
    void make_rows(Rooms& rooms, int64_t first, int64_t last) const {
        if (rooms.heights == Range{first, last}) return;
        rooms.heights = {first, last};
        for (int64_t h = first; h < last; ++h) make_row_of(rooms.rows[h - first], height_, h);
        for (int64_t h = last - 1; h >= first; --h) {
            Row &row = rooms.rows[h - first], &next = rooms.rows[h - first + 1];
            row.alike = 1, row.advance = 0;
            if (h + 1 == last || row.range.size() != next.range.size() || row.divisor != next.divisor) continue;
            const int64_t advance = next.range.first - row.range.first;
            if (next.alike > 1 && next.advance != advance) continue;
            if (gradient && !std::equal(row.weights, row.weights + row.range.size(), next.weights)) continue;
            row.alike = next.alike + 1, row.advance = advance;
        }
    }
    // The means of integers are shifted where all divisors of a row are one power of two: by how much, else -1.
    int shift_of(int64_t depth, int64_t height) const {
        const int64_t divisor = Divisor().times(depth).times(height).times(rule_.window).exact;
        const bool alike = width_.axis->divisor(0) == rule_.window && width_.axis->divisor(width_.destinations() - 1) == rule_.window;
        return alike && divisor <= 64 && (divisor & (divisor - 1)) == 0 ? __builtin_ctzll(uint64_t(divisor)) : -1;
    }
    template <int lanes>
    POOLGRAD_INLINE static Vector<A, lanes> mean_of(Vector<A, lanes> sum, int shift, const float* divisors) {
        if (shift < 0) {  // in parts of 32 bits a lane
            constexpr int part = std::min(lanes, kLanes<int32_t>);
            A sums[lanes];
            S means[lanes];
            store<A, lanes>(sums, sum);
            for (int i = 0; i < lanes; i += part)
                store_means<S, float, part>(means + i, load<int32_t, part>(sums + i), load<float, part>(divisors + i));
            return load<A, lanes>(means);
        }
        // Half to even: what is half a unit or more goes up, a half only to an even number.
        const A below = A(((1 << shift) >> 1) - (shift > 0));
        const Vector<A, lanes> odd = (sum >> A(shift)) & spread<A, lanes>(A(shift > 0));
        const Vector<A, lanes> mean = (sum + spread<A, lanes>(below) + odd) >> A(shift);
        const auto low = spread<A, lanes>(std::numeric_limits<S>::min()), high = spread<A, lanes>(std::numeric_limits<S>::max());
        return ~larger<A, lanes>(~larger<A, lanes>(mean, low), ~high);
    }
    // The divisors of a row for these of the other axes. Two rows are kept: most windows are whole along height, the others alike.
    // Which row of factors has them; reciprocals where all are powers of two.
    std::size_t divisors_of(Rooms& rooms, Range box, int64_t depth, int64_t height) const {
        std::size_t slot = 0;
        while (slot < rooms.divided_by.size() && rooms.divided_by[slot] != std::pair(depth, height)) ++slot;
        if (slot < rooms.divided_by.size()) return slot;
        slot = rooms.oldest;
        Factor* row = rooms.factors + int64_t(slot) * factors_size();
        const Divisor divisor = Divisor().times(depth).times(height);
        bool all = !integers && rule_.window != 3;
        for (int64_t i = 0; i < box.size(); ++i) {
            row[i] = divisor.times(width_.axis->divisor(box.first + i)).template as<Factor>();
            all = all && is_power_of_two(row[i]);
        }
        for (int64_t i = 0; i < box.size() && all; ++i) row[i] = Factor(1) / row[i];
        rooms.divided_by[slot] = {depth, height}, rooms.reciprocals[slot] = all, rooms.oldest = 1 - slot;
        return slot;
    }

    int64_t tile_ = 0;
    bool stream_ = false;
};

}  // namespace poolgrad::POOLGRAD_ISA
