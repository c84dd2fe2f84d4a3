// Averages and their gradients: one separable driver for both.
// Order of the numbers (same bits whatever the tiling): sums over depth, then height, then width, each ascending from the range's
// own start, first term assigned, in blocks of 256; forward one true division at the end, in a gradient each term times 1/divisor of
// its axis in that axis's pass. Lanes of a vector are different destinations, never terms of one sum.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

inline constexpr int64_t kBlock = 256;

// Rows of a sum at equal distances, and rows anywhere.
template <class R>
struct PitchRows {
    const R* base;
    int64_t pitch;
    POOLGRAD_INLINE const R* operator()(int64_t i) const { return base + i * pitch; }
};
template <class R>
struct PointerRows {
    const R* const* rows;
    POOLGRAD_INLINE const R* operator()(int64_t i) const { return rows[i]; }
};

// Sinks take sums: put<lanes>(index, vector of sums).
template <class A>
struct StoreSink {
    A* to;
    bool add;  // a further block: its sum is added to the sum of those before
    template <int lanes>
    POOLGRAD_INLINE void put(int64_t at, Vector<A, lanes> sum) const {
        if (add) sum = load<A, lanes>(to + at) + sum;
        store<A, lanes>(to + at, sum);
    }
};

template <class A, class T, bool gradient>
struct ResultSink {
    T* to;
    std::conditional_t<std::is_floating_point_v<A>, A, int64_t> divisor;
    template <int lanes>
    POOLGRAD_INLINE void put(int64_t at, Vector<A, lanes> sum) const {
        if constexpr (!gradient && std::is_floating_point_v<A>) {
            store<A, lanes>(to + at, sum / spread<A, lanes>(divisor));
        } else if constexpr (!gradient) {
            A each[lanes];
            store<A, lanes>(each, sum);
            for (int i = 0; i < lanes; ++i)
                to[at + i] = T(int64_t(T(each[i])) / divisor);
        } else {
            store<A, lanes>(to + at, sum);
        }
    }
};

template <int lanes, int unroll, bool weighted, class A, class Rows, class Sink>
POOLGRAD_INLINE void sum_columns(const Rows& rows, const A* weights, int64_t count, int64_t at, const Sink& sink) {
    Vector<A, lanes> sum[unroll];
    for (int u = 0; u < unroll; ++u) {
        sum[u] = load<A, lanes>(rows(0) + at + u * lanes);
        if constexpr (weighted) sum[u] = sum[u] * weights[0];
    }
    for (int64_t i = 1; i < count; ++i)
        for (int u = 0; u < unroll; ++u) {
            auto term = load<A, lanes>(rows(i) + at + u * lanes);
            if constexpr (weighted) term = term * weights[i];
            sum[u] = sum[u] + term;
        }
    for (int u = 0; u < unroll; ++u) sink.template put<lanes>(at + u * lanes, sum[u]);
}

// sink <- the sum of 1 to kBlock rows, element by element.
template <bool weighted, class A, class Rows, class Sink>
inline void sum_rows(const Rows& rows, const A* weights, int64_t count, int64_t length, const Sink& sink) {
    constexpr int lanes = kLanes<A>;
    int64_t at = 0;
    for (; at + 4 * lanes <= length; at += 4 * lanes) sum_columns<lanes, 4, weighted>(rows, weights, count, at, sink);
    for (; at + lanes <= length; at += lanes) sum_columns<lanes, 1, weighted>(rows, weights, count, at, sink);
    for (; at < length; ++at) sum_columns<1, 1, weighted>(rows, weights, count, at, sink);
}

// Product of divisors, saturating: a quotient by 2^63 or more is 0 for every integer, and floats take the product in double.
struct Divisor {
    int64_t exact = 1;
    double wide = 1;
    Divisor times(int64_t factor) const {
        Divisor product{0, wide * double(factor)};
        if (__builtin_mul_overflow(exact, factor, &product.exact)) product.exact = INT64_MAX;
        return product;
    }
    template <class A>
    A as() const {
        return std::is_floating_point_v<A> && exact == INT64_MAX ? A(wide) : A(exact);
    }
};

// Rounds exact sums to the storage type of a mean: floats from the double quotient, integers half to even, saturating (a divisor
// may be smaller than the window).
template <class A>
void finish_mean(const A* sums, int64_t count, Divisor divisor, Kind kind, std::byte* to) {
    const double n = divisor.as<double>();
    visit(kind, [&](auto type) {
        using T = typename decltype(type)::type;
        T* result = reinterpret_cast<T*>(to);
        if constexpr (std::is_floating_point_v<T>) {
            for (int64_t i = 0; i < count; ++i) result[i] = T(double(sums[i]) / n);
        } else if constexpr (std::is_integral_v<T>) {
            using Limits = std::numeric_limits<T>;
            for (int64_t i = 0; i < count; ++i) {
                // Below 2^52 the rounded double quotient is a tie only where the true one is.
                const double sum = double(sums[i]);
                if (sizeof(A) <= 4 || (sum < 0x1p52 && sum > -0x1p52)) {
                    const double rounded = std::nearbyint(sum / n);
                    result[i] = rounded >= double(Limits::max())   ? Limits::max()
                                : rounded <= double(Limits::min()) ? Limits::min()
                                                                   : T(rounded);
                } else {
                    const A exact = A(divisor.exact);
                    A quotient = sums[i] / exact, rest = sums[i] % exact;
                    if (rest < 0) rest += exact, --quotient;
                    if (rest > exact - rest || (rest == exact - rest && (quotient & 1))) ++quotient;
                    result[i] = quotient >= A(Limits::max()) ? Limits::max() : quotient <= A(Limits::min()) ? Limits::min() : T(quotient);
                }
            }
        }
    });
}

// S stored, A accumulated, T the result's type; for `exact` (means of integers) T does not count, see finish_mean.
template <class S, class A, class T, bool gradient, bool exact = false>
class Average {
  public:
    explicit Average(const AverageCall& call)
        : call_(call),
          inner_(call.layout.inner),
          depth_{call.layout.axes[0], gradient},
          height_{call.layout.axes[1], gradient},
          width_{call.layout.axes[2], gradient},
          result_bytes_(exact ? item_size(call.destination_kind) : int64_t(sizeof(T))),
          depth_trivial_(depth_.axis->is_identity()),
          height_trivial_(height_.axis->is_identity()) {}

    void run() {
        const int64_t ring = depth_trivial_ || height_trivial_ ? 1 : std::min(height_.longest(), kBlock);
        ring_rows_ = depth_trivial_ || height_trivial_ ? 0 : ring;
        // Elements of one row of sums. 16384 floats are 64 KiB; with a ring of rows all of it stays within 2 MiB of doubles.
        const int64_t room = std::clamp<int64_t>((256 << 10) / ring, 1024, 16384);
        const int64_t block = std::min(width_.longest(), kBlock);
        const int64_t lanes = inner_ * block <= room ? inner_ : std::max<int64_t>(64, room / block / 16 * 16);
        run_ = std::min(inner_, lanes);
        columns_ = std::max<int64_t>(1, room / std::max<int64_t>(1, run_));
        long_ = width_.longest() > columns_;
        Tiling tiling;
        tiling.extent = {call_.layout.outer, depth_.destinations(), height_.destinations(), width_.destinations(), inner_};
        for (int64_t size : tiling.extent)
            if (size == 0) return;
        const int64_t across = long_ ? 1 : std::min(fitting_tile(width_, columns_), std::max<int64_t>(1, room / run_));
        // With a pass over depth, planes of the source come back for the next depth: keep those of a box within 512 KiB.
        int64_t down = tiling.extent[2];
        if (!depth_trivial_ && !long_) {
            const int64_t row = width_.range(Range{0, std::min(across, tiling.extent[3])}).size() * run_ * int64_t(sizeof(S));
            down = fitting_tile(height_, std::max<int64_t>((512 << 10) / std::max<int64_t>(1, depth_.longest() * row), 4));
            down = std::max<int64_t>(down, 4);
        }
        tiling.tile = {1, tiling.extent[1], down, across, run_};
        columns_ = long_ ? block : std::min(columns_, width_.sources());
        const int64_t sources = call_.layout.outer * depth_.sources() * height_.sources() * width_.sources() * inner_;
        int64_t results = 1;
        for (int64_t size : tiling.extent) results *= size;
        const int64_t traffic = sources * int64_t(sizeof(S)) + results * result_bytes_;
        balance(tiling, call_.workers, traffic / results);
        Rooms measure(*this, nullptr);
        run_boxes(tiling, call_.workers, traffic, measure.arena.used(),
                  [this](const Box& box, std::byte* scratch) { compute(box, scratch); });
    }

  private:
    // A worker's scratch.
    struct Rooms {
        Rooms(const Average& job, std::byte* base) : arena(base) {
            width_weights = arena.take<A>(gradient ? job.columns_ : 0);
            total = arena.take<A>(job.run_);
            if (!job.depth_trivial_ || !job.height_trivial_) row = arena.take<A>(job.columns_ * job.run_);
            const bool summed_apart = job.ring_rows_ && job.height_.longest() > kBlock;
            if (summed_apart) block_row = arena.take<A>(job.columns_ * job.run_);
            ring = arena.take<A>((summed_apart ? 1 : job.ring_rows_) * job.columns_ * job.run_);
            ring_holds = arena.take<int64_t>(job.ring_rows_);
        }
        Arena arena;
        A *width_weights, *total, *row = nullptr, *block_row = nullptr, *ring;
        int64_t* ring_holds;
        // What `row` holds.
        Range depths{0, 0}, heights{0, 0}, columns{0, 0};
    };

    static A weight(const Side& side, int64_t source) { return A(1) / A(side.axis->divisor(source)); }
    static void fill_weights(const Side& side, int64_t first, int64_t count, A* weights) {
        if constexpr (gradient)
            for (int64_t i = 0; i < count; ++i) weights[i] = weight(side, first + i);
    }

    void compute(const Box& box, std::byte* scratch) const {
        Rooms rooms(*this, scratch);
        const Range columns = width_.range(box.width);
        if (!long_) fill_weights(width_, columns.first, columns.size(), rooms.width_weights);
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
            for (int64_t d = box.depth.first; d < box.depth.last; ++d) {
                const Range depths = depth_.range(d);
                forget_rows(rooms);
                for (int64_t h = box.height.first; h < box.height.last; ++h) {
                    const int64_t at =
                        (((outer * depth_.destinations() + d) * height_.destinations() + h) * width_.destinations() +
                         box.width.first) * inner_ + box.inner.first;
                    const Range heights = height_.range(h);
                    const Place place{outer, depths, heights, box.inner};
                    Divisor divisor;
                    if constexpr (!gradient) divisor = divisor.times(depth_.axis->divisor(d)).times(height_.axis->divisor(h));
                    for (int64_t w = box.width.first; w < box.width.last; ++w)
                        one(rooms, place, columns, w, divisor, at + (w - box.width.first) * inner_);
                }
            }
    }

    // Where the sums of one destination row come from.
    struct Place {
        int64_t outer;
        Range depths, heights, inner;
    };

    // One destination run: its sum over width.
    void one(Rooms& rooms, const Place& place, Range columns, int64_t w, Divisor divisor, int64_t at) const {
        const Range range = width_.range(w);
        const int64_t run = place.inner.size();
        if (place.depths.empty() || place.heights.empty() || range.empty()) {
            std::memset(static_cast<std::byte*>(call_.destination) + at * result_bytes_, 0, std::size_t(run * result_bytes_));
            return;
        }
        if constexpr (!gradient) divisor = divisor.times(width_.axis->divisor(w));
        for (int64_t first = range.first; first < range.last; first += kBlock) {
            const Range block{first, std::min(first + kBlock, range.last)};
            const Range held = long_ ? block : columns;
            A near_weights[kBlock];
            const A* weights = rooms.width_weights + (block.first - held.first);
            if (long_) fill_weights(width_, block.first, block.size(), near_weights), weights = near_weights;
            const bool whole = block == range && !exact;
            const auto sum = [&](const auto& rows) {
                if (whole)
                    sum_rows<gradient>(rows, weights, block.size(), run, result_sink(at, divisor));
                else
                    sum_rows<gradient>(rows, weights, block.size(), run, StoreSink<A>{rooms.total, first != range.first});
            };
            if (depth_trivial_ && height_trivial_)
                sum(PitchRows<S>{source_at(place.outer, place.depths.first, place.heights.first, block.first, place.inner), inner_});
            else
                sum(PitchRows<A>{reduced_row(rooms, place, held) + (block.first - held.first) * run, run});
            if (whole) return;
        }
        if constexpr (exact)
            finish_mean(rooms.total, run, divisor, call_.destination_kind,
                        static_cast<std::byte*>(call_.destination) + at * result_bytes_);
        else
            sum_rows<false, A>(PitchRows<A>{rooms.total, 0}, static_cast<const A*>(nullptr), 1, run, result_sink(at, divisor));
    }

    ResultSink<A, T, gradient> result_sink(int64_t at, Divisor divisor) const {
        return {static_cast<T*>(call_.destination) + at, divisor.as<decltype(ResultSink<A, T, gradient>::divisor)>()};
    }

    const S* source_at(int64_t outer, int64_t d, int64_t h, int64_t w, Range inner) const {
        return static_cast<const S*>(call_.source) +
               (((outer * depth_.sources() + d) * height_.sources() + h) * width_.sources() + w) * inner_ + inner.first;
    }

    void forget_rows(Rooms& rooms) const {
        rooms.depths = {0, 0};
        for (int64_t i = 0; i < ring_rows_; ++i) rooms.ring_holds[i] = -1;
    }

    // The sums over depth and height of some columns, [column][inner], kept until asked for others.
    const A* reduced_row(Rooms& rooms, const Place& place, Range columns) const {
        if (rooms.depths == place.depths && rooms.heights == place.heights && rooms.columns == columns) return rooms.row;
        if (!(rooms.depths == place.depths && rooms.columns == columns)) forget_rows(rooms);
        rooms.depths = place.depths, rooms.heights = place.heights, rooms.columns = columns;
        if (depth_trivial_)
            sum_source(place, columns, place.depths.first, place.heights.first, height_, place.heights, rooms.row);
        else if (height_trivial_)
            sum_source(place, columns, place.depths.first, place.heights.first, depth_, place.depths, rooms.row);
        else
            sum_both(rooms, place, columns);
        return rooms.row;
    }

    // Sums the source along depth or height.
    void sum_source(const Place& place, Range columns, int64_t d, int64_t h, const Side& side, Range range, A* to) const {
        const int64_t pitch = width_.sources() * inner_ * (&side == &depth_ ? height_.sources() : 1);
        const int64_t run = place.inner.size();
        const bool joined = run == inner_;  // whole runs lie side by side
        const int64_t runs = joined ? 1 : columns.size(), length = joined ? columns.size() * run : run;
        A weights[kBlock];
        for (int64_t first = range.first; first < range.last; first += kBlock) {
            const int64_t count = std::min(kBlock, range.last - first);
            fill_weights(side, first, count, weights);
            const S* base = source_at(place.outer, d, h, columns.first, place.inner) + (first - range.first) * pitch;
            for (int64_t i = 0; i < runs; ++i)
                sum_rows<gradient>(PitchRows<S>{base + i * inner_, pitch}, weights, count, length,
                                   StoreSink<A>{to + i * run, first != range.first});
        }
    }

    // Over depth into a ring of rows, one for each source height, then over height.
    void sum_both(Rooms& rooms, const Place& place, Range columns) const {
        const int64_t length = columns.size() * place.inner.size(), size = columns_ * run_;
        const Range range = place.heights;
        A weights[kBlock];
        const A* rows[kBlock];
        if (range.size() <= kBlock && !rooms.block_row) {
            for (int64_t h = range.first; h < range.last; ++h) {
                A* row = rooms.ring + h % ring_rows_ * size;
                if (rooms.ring_holds[h % ring_rows_] != h)
                    sum_source(place, columns, place.depths.first, h, depth_, place.depths, row);
                rooms.ring_holds[h % ring_rows_] = h;
                rows[h - range.first] = row;
            }
            fill_weights(height_, range.first, range.size(), weights);
            sum_rows<gradient>(PointerRows<A>{rows}, weights, range.size(), length, StoreSink<A>{rooms.row, false});
            return;
        }
        // Too many rows for a ring: each is made again when needed and added at once.
        for (int64_t h = range.first; h < range.last; ++h) {
            sum_source(place, columns, place.depths.first, h, depth_, place.depths, rooms.ring);
            const int64_t in_block = (h - range.first) % kBlock;
            fill_weights(height_, h, 1, weights);
            sum_rows<gradient>(PitchRows<A>{rooms.ring, 0}, weights, 1, length, StoreSink<A>{rooms.block_row, in_block != 0});
            if (in_block == kBlock - 1 || h == range.last - 1)
                sum_rows<false, A>(PitchRows<A>{rooms.block_row, 0}, static_cast<const A*>(nullptr), 1, length,
                                   StoreSink<A>{rooms.row, h - range.first >= kBlock});
        }
    }

    const AverageCall& call_;
    const int64_t inner_;
    const Side depth_, height_, width_;
    const int64_t result_bytes_;
    const bool depth_trivial_, height_trivial_;
    int64_t ring_rows_ = 0;  // of sums over depth; 0 when depth or height has nothing to sum
    int64_t run_ = 1;        // inner elements of a box
    int64_t columns_ = 1;    // source columns of a box
    bool long_ = false;      // one range of width is more than a row of scratch holds: in blocks, one destination at a time
};

// Sums of all terms in one pass, for what is not separable or not worth it. Term is added as the policy says, in row-major order of
// the sources; A is the policy's accumulator.
template <class S, class Policy>
void average_direct(const AverageCall& call) {
    using A = typename Policy::Total;
    const Layout& layout = call.layout;
    const bool gradient = Policy::gradient;
    const Side depth{layout.axes[0], gradient}, height{layout.axes[1], gradient}, width{layout.axes[2], gradient};
    constexpr int64_t kRun = 256;
    Tiling tiling;
    tiling.extent = {layout.outer, depth.destinations(), height.destinations(), width.destinations(), layout.inner};
    tiling.tile = {1, tiling.extent[1], tiling.extent[2], tiling.extent[3], std::min(kRun, layout.inner)};
    for (int64_t size : tiling.extent)
        if (size == 0) return;
    balance(tiling, call.workers, 8);
    const int64_t result_bytes = item_size(call.destination_kind);
    const auto one = [&](int64_t outer, int64_t d, int64_t h, int64_t w, Range inner) {
        A total[kRun] = {};
        const Range ds = depth.range(d), hs = height.range(h), ws = width.range(w);
        for (int64_t z = ds.first; z < ds.last; ++z)
            for (int64_t y = hs.first; y < hs.last; ++y)
                for (int64_t x = ws.first; x < ws.last; ++x) {
                    const S* from = static_cast<const S*>(call.source) +
                                    (((outer * depth.sources() + z) * height.sources() + y) * width.sources() + x) * layout.inner;
                    Divisor divisor;
                    if (gradient)
                        divisor = divisor.times(depth.axis->divisor(z)).times(height.axis->divisor(y)).times(width.axis->divisor(x));
                    const double n = divisor.as<double>();
                    for (int64_t c = inner.first; c < inner.last; ++c) Policy::add(total[c - inner.first], from[c], n);
                }
        Divisor divisor;
        if (!gradient)
            divisor = divisor.times(depth.axis->divisor(d)).times(height.axis->divisor(h)).times(width.axis->divisor(w));
        const int64_t at = (((outer * depth.destinations() + d) * height.destinations() + h) * width.destinations() + w) * layout.inner;
        Policy::template finish<S>(total, inner.size(), divisor, call.destination_kind,
                                   static_cast<std::byte*>(call.destination) + (at + inner.first) * result_bytes);
    };
    run_boxes(tiling, call.workers, kParallelBytes, 0, [&](const Box& box, std::byte*) {
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
            for (int64_t d = box.depth.first; d < box.depth.last; ++d)
                for (int64_t h = box.height.first; h < box.height.last; ++h)
                    for (int64_t w = box.width.first; w < box.width.last; ++w) one(outer, d, h, w, box.inner);
    });
}

// TensorFlow's integer gradient: double(g) / n, added in double, truncated toward zero, saturating.
struct TruncatedGradient {
    using Total = double;
    static constexpr bool gradient = true;
    template <class S>
    static void add(double& total, S value, double n) { total += double(value) / n; }
    template <class S>
    static void finish(const double* total, int64_t count, Divisor, Kind, std::byte* to) {
        constexpr double low = double(std::numeric_limits<S>::min());
        for (int64_t i = 0; i < count; ++i)
            reinterpret_cast<S*>(to)[i] = total[i] >= -low  ? std::numeric_limits<S>::max()
                                          : total[i] <= low ? std::numeric_limits<S>::min()
                                                            : S(total[i]);
    }
};

struct WideMean {
    using Total = __int128;
    static constexpr bool gradient = false;
    template <class S>
    static void add(__int128& total, S value, double) { total += value; }
    template <class S>
    static void finish(const __int128* total, int64_t count, Divisor divisor, Kind kind, std::byte* to) {
        finish_mean(total, count, divisor, kind, to);
    }
};

}  // namespace poolgrad::POOLGRAD_ISA
