// Averages of small windows where inner is 1, and the gradients of some: down and across in registers (slide.h), or of short planes as a whole.
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
    // Forward: divisors along width, for two products of the others. Gradient: their reciprocals, one row.
    static constexpr int64_t kFactors = gradient ? 1 : 2;

    // What a destination sums along depth or height.
    struct Row {
        Range range;
        int64_t divisor;        // forward
        A weights[kSlideRows];  // in a gradient
    };
    struct Rooms {
        Rooms(const SmallWindows& job, std::byte* base) : arena(base) {
            if (job.stream_) staging = arena.take<S>(job.staging_size() + 2 * kLanes<A>);
            factors = arena.take<Factor>(kFactors * job.factors_size());
            rows = arena.take<Row>(kSlideHeights + 1);
        }
        Arena arena;
        S* staging = nullptr;
        Factor* factors;
        Row* rows;  // of some heights, and of one depth behind
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
    int64_t staging_size() const { return tile_ + 512 / int64_t(sizeof(S)); }
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
            const Reader reader(source, elements, wide, start(box.width));
            const bool one_first = gradient && lead(box.width);
            // A last register may go beyond its row where what follows is written later, or belongs to nobody.
            const int64_t row = width_.destinations(), plane = height_.destinations() * row, space = depth_.destinations() * plane;
            const bool rows_follow = count == row, planes_follow = rows_follow && box.height.size() == height_.destinations();
            const bool all_follow = planes_follow && box.depth.size() == depth_.destinations(), streaming = rooms.staging;
            const Range heights = box.height;
            const Rule* down_rule = height_.axis->rule();
            const int64_t skips = !gradient && down_rule && down_rule->stride > down_rule->window ? 16 * down_rule->stride * wide : 0;
            const Range columns = width_.range(box.width);
            const bool fetches = !skips && high > 1 && fetches_rows(wide * int64_t(sizeof(S)), gradient ? 1 : stride);
            const int64_t ahead = !fetches ? 0 : gradient || !down_rule ? 2 : std::max<int64_t>(4, 2 * down_rule->stride);  // rows
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
                for (int64_t h = heights.first, i = 0; h < heights.last; ++h, ++i, at += row) {
                    if (i % kSlideHeights == 0) make_rows(rooms, h, std::min(h + kSlideHeights, heights.last)), i = 0;
                    const Row& along_height = table[i];
                    const Range ys = along_height.range;
                    S* to = writer.row(at, count);
                    if (zs.empty() || ys.empty()) {
                        std::memset(to, 0, std::size_t(count) * sizeof(S));
                        continue;
                    }
                    const Factor* factors = rooms.factors;
                    bool multiplies = false;  // by reciprocals
                    if constexpr (!gradient) {
                        const std::size_t slot = divisors_of(rooms, box.width, along_depth.divisor, along_height.divisor);
                        factors += int64_t(slot) * factors_size(), multiplies = rooms.reciprocals[slot];
                    }
                    const int shift = integers ? shift_of(along_depth.divisor, along_height.divisor) : -1;
                    const int64_t first = ((source_planes + zs.first) * high + ys.first) * wide;
                    for (int64_t next = 0; skips && next < wide; next += 64 / int64_t(sizeof(S)))  // the CPU does not foresee what is left out
                        __builtin_prefetch(source + first + skips + next);
                    const int64_t whole = at + padded <= end ? count : count / step * step;
                    const bool inside = reader.inside(first, first + ((zs.size() - 1) * high + ys.size() - 1) * wide);
                    for (int64_t z = 0; ahead && z < zs.size(); ++z)
                        for (int64_t y = ys.size(); y < ys.size() + ahead; ++y)
                            fetch(source + first + (z * high + y) * wide + columns.first, columns.size());
                    const A *depth_weights = along_depth.weights, *height_weights = along_height.weights;
                    const auto make_row = [=, &reader](auto rows, auto planes) POOLGRAD_LAMBDA {
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
                                for (int z = 0; z < planes; ++z) sum = sum + weighed(read(first + (z * high + y) * wide), depth_weights + z);
                                total = total + weighed(sum, height_weights + y);
                            }
                            return total;
                        };
                        const auto column = [=, &reader](int64_t k, auto filled) POOLGRAD_LAMBDA {
                            const auto sum = reader.template column<filled()>(k, inside, down);
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
                            slide_back<lanes>(count, whole, one_first, reader.whole(inside), column, put_both);
                        else if constexpr (stride == 2)
                            slide_by_two<window, lanes>(count, whole, reader.whole(inside), column, put);
                        else
                            slide<stride, window, lanes>(count, reader.whole(inside), column, [](auto sum, auto term, int) POOLGRAD_LAMBDA { return sum + term; }, put);
                    };
                    // Numbers of rows that are known to the compiler take a third of the time; these are the most frequent.
                    constexpr int most = back ? 2 : window, many = most < 4 ? most : 1;
                    const auto is = [&](int64_t rows, int64_t planes) { return ys.size() == rows && zs.size() == planes; };
                    if (is(most, 1))
                        make_row(Constant<most>(), Constant<1>());
                    else if (is(many, many))
                        make_row(Constant<many>(), Constant<many>());
                    else if (back && is(1, 1))
                        make_row(Constant<1>(), Constant<1>());
                    else if (back && is(1, many))
                        make_row(Constant<1>(), Constant<back ? many : 1>());
                    else
                        make_row(int(ys.size()), int(zs.size()));
                }
            }
        }
    }
    // What a destination sums along depth or height; of heights, all those of planes that are not too high are made once.
    void make_row_of(Row& row, const Side& side, int64_t destination) const {
        row.range = side.range(destination);
        if constexpr (gradient)
            fill_weights<A>(side, row.range.first, row.range.size(), row.weights);
        else
            row.divisor = side.axis->divisor(destination);
    }
    void make_rows(Rooms& rooms, int64_t first, int64_t last) const {
        if (rooms.heights == Range{first, last}) return;
        rooms.heights = {first, last};
        for (int64_t h = first; h < last; ++h) make_row_of(rooms.rows[h - first], height_, h);
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

// Averages of windows of 3 by 1 that keep the size of short planes, and their gradients: a plane is one run of elements, whatever its width,
// summed down and then across. Both ways an element comes from itself and its neighbours.
template <class S, class A, bool gradient>
class ShortPlanes : Sides {
    static constexpr int lanes = kLanes<A>;
    using Raw = typename BitsOf<sizeof(A)>::type;

  public:
    explicit ShortPlanes(const AverageCall& call) : Sides(call, gradient), high_(height_.sources()), wide_(width_.sources()) {}

    bool usable() const {
        const auto by_three = [](const Side& side) {
            const Rule* rule = side.axis->rule();
            return rule && rule->stride == 1 && rule->window == 3 && rule->before == 1 && rule->output_size == rule->input_size;
        };
        if (inner_ != 1 || !depth_.axis->is_identity() || !by_three(height_) || !by_three(width_)) return false;
        return high_ <= kMost && wide_ <= kMost && high_ * wide_ <= kMost && (high_ - 2) * wide_ >= lanes && (high_ - 1) * wide_ >= padded();
    }

    void run(int64_t traffic) const {
        const int64_t plane = high_ * wide_, together = kTogether / plane;
        const bool stream = is_streamed(traffic);
        Tiling tiling{{call_.layout.outer * depth_.sources(), 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
        balance(tiling, call_.workers, 2 * plane * int64_t(sizeof(S)));
        const auto work = [&](const Box& box, std::byte* scratch) {
            const Rooms rooms(*this, scratch, stream);
            prepare(rooms);
            Writer<S> writer(static_cast<S*>(call_.destination), rooms.staging, kStaging);
            // What was just stored had better not be loaded shifted at once.
            for (int64_t first = box.outer.first; first < box.outer.last; first += together) {
                const int64_t count = std::min(together, box.outer.last - first);
                const S* from = static_cast<const S*>(call_.source) + first * plane;
                S* to = writer.row(first * plane, count * plane);
                for (int64_t i = 0; i < count; ++i) sum_down(rooms, from + i * plane, rooms.sums + lanes + i * plane);
                for (int64_t i = 0; i < count; ++i) sum_across(rooms, rooms.sums + lanes + i * plane, to + i * plane);
            }
            writer.finish();
        };
        run_boxes(tiling, call_.workers, traffic, Rooms(*this, nullptr, stream).arena.used(), work);
    }

  private:
    static constexpr int64_t kMost = 1024, kTogether = 2048, kStaging = 2 * kTogether;  // elements of a plane, of planes at once

    // Of all elements of a plane.
    struct Rooms {
        Rooms(const ShortPlanes& job, std::byte* base, bool stream) : arena(base) {
            const int64_t plane = job.high_ * job.wide_;
            left = arena.take<Raw>(plane), right = arena.take<Raw>(plane);
            factors = arena.take<A>(plane);
            if (gradient) heights = arena.take<A>(plane);
            sums = arena.take<A>(kTogether + 2 * lanes);
            if (stream) staging = arena.take<S>(kStaging);
        }
        Arena arena;
        Raw *left, *right;                // whether there is a neighbour
        A *factors, *heights = nullptr;  // forward: divisors; gradient: weights along width, and along height
        A* sums;
        S* staging = nullptr;
    };
    void prepare(const Rooms& rooms) const {
        for (int64_t h = 0, i = 0; h < high_; ++h)
            for (int64_t w = 0; w < wide_; ++w, ++i) {
                rooms.left[i] = Raw(w > 0 ? -1 : 0), rooms.right[i] = Raw(w + 1 < wide_ ? -1 : 0);
                if constexpr (gradient)
                    fill_weights<A>(width_, w, 1, rooms.factors + i), fill_weights<A>(height_, h, 1, rooms.heights + i);
                else
                    rooms.factors[i] = Divisor().times(depth_.axis->divisor(0)).times(height_.axis->divisor(h)).times(width_.axis->divisor(w)).template as<A>();
            }
    }
    int64_t padded() const { return divide_up(wide_, lanes) * lanes; }

    // The first row and the last in whole registers, whose rest those between write again.
    POOLGRAD_NOINLINE void sum_down(const Rooms& rooms, const S* from, A* to) const {
        const int64_t plane = high_ * wide_, wide = wide_, over = padded();
        const A *heights = rooms.heights, *factors = rooms.factors;
        const auto put = [=](int64_t at, auto sum) POOLGRAD_LAMBDA {
            if constexpr (gradient) sum = sum * load<A, lanes>(factors + at);
            store<A, lanes>(to + at, sum);
        };
        const auto term = [=](int64_t at) POOLGRAD_LAMBDA {
            if constexpr (gradient)
                return load<A, lanes>(from + at) * load<A, lanes>(heights + at);
            else
                return load<A, lanes>(from + at);
        };
        for (int64_t at = 0; at < over; at += lanes) put(at, term(at) + term(at + wide));
        for (int64_t at = plane - over; at < plane; at += lanes) put(at, term(at - wide) + term(at));
        const auto between = [=](int64_t at) POOLGRAD_LAMBDA { put(at, (term(at - wide) + term(at)) + term(at + wide)); };
        const int64_t last = plane - wide - lanes;
        for (int64_t at = wide; at < last; at += lanes) between(at);
        between(last);
    }
    POOLGRAD_NOINLINE void sum_across(const Rooms& rooms, const A* from, S* to) const {
        const int64_t last = high_ * wide_ - lanes;
        const Raw *left = rooms.left, *right = rooms.right;
        const A* factors = rooms.factors;
        const auto nothing = spread<A, lanes>(A(-0.0));
        const auto put = [=](int64_t at) POOLGRAD_LAMBDA {
            const auto before = select<A, lanes>(load<Raw, lanes>(left + at), load<A, lanes>(from + at - 1), nothing);
            const auto after = select<A, lanes>(load<Raw, lanes>(right + at), load<A, lanes>(from + at + 1), nothing);
            auto sum = (before + load<A, lanes>(from + at)) + after;
            if constexpr (!gradient) sum = sum / load<A, lanes>(factors + at);
            store<A, lanes>(to + at, sum);
        };
        for (int64_t at = 0; at < last; at += lanes) put(at);
        put(last);
    }

    const int64_t high_, wide_;
};

}  // namespace poolgrad::POOLGRAD_ISA
