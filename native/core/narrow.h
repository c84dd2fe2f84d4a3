// Averages of windows of 3 by 1 that keep the size of narrow planes, and their gradients: both ways an element comes from itself and its
// neighbours. A plane is one run of elements, whatever its width, and so are many small planes: registers go over the ends of rows, and
// neighbours that are none are masked.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class A, bool gradient>
class NarrowPlanes : Sides {
    static constexpr int lanes = kLanes<A>;
    using Raw = typename BitsOf<sizeof(A)>::type;
    using Cell = Vector<A, lanes>;

  public:
    explicit NarrowPlanes(const AverageCall& call)
        : Sides(call, gradient), high_(height_.sources()), wide_(width_.sources()), planes_(call.layout.outer * depth_.sources()) {}

    bool usable() const {
        const auto by_three = [](const Side& side) {
            const Rule* rule = side.axis->rule();
            return rule && rule->stride == 1 && rule->window == 3 && rule->before == 1 && rule->output_size == rule->input_size;
        };
        if (inner_ != 1 || !depth_.axis->is_identity() || !by_three(height_) || !by_three(width_)) return false;
        return wide_ <= kWidest && high_ <= kMost && high_ * wide_ <= kMost && (high_ - 2) * wide_ >= lanes;
    }

    void run(int64_t traffic) {
        const auto joint = [](int64_t size) { return size / std::gcd(size, int64_t(lanes)) * lanes; };
        plane_ = high_ * wide_, small_ = plane_ <= kSmall;
        together_ = small_ ? kTogether / plane_ : 1, period_ = joint(small_ ? plane_ : wide_);
        end_ = divide_up(plane_, lanes) * lanes;
        head_ = std::min(divide_up(kEdge * wide_, lanes) * lanes, end_), tail_ = std::max(head_, (plane_ - kEdge * wide_) / lanes * lanes);
        const bool stream = is_streamed(traffic);
        Tiling tiling{{planes_, 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
        balance(tiling, call_.workers, 2 * plane_ * int64_t(sizeof(S)));
        run_boxes(tiling, call_.workers, traffic, Rooms(*this, nullptr, stream).arena.used(), [&](const Box& box, std::byte* scratch) {
            const Rooms rooms(*this, scratch, stream);
            prepare(rooms);
            Writer<S> writer(static_cast<S*>(call_.destination), rooms.staging, staging_size());
            for (int64_t first = box.outer.first, last; first < box.outer.last; first = last) {
                last = std::min(first + together_, box.outer.last);
                const S* from = source(rooms, first, last);
                S* to = writer.row(first * plane_, (last - first) * plane_);
                const bool over = rooms.staging || last < box.outer.last;  // what follows may be written: it is so again, later
                if (small_)
                    make_planes(rooms, from, to, (last - first) * plane_, over);
                else
                    make_plane(rooms, from, to, over);
            }
            writer.finish();
        });
    }

  private:
    static constexpr int64_t kWidest = 96, kMost = 9216;         // columns, elements of a plane
    static constexpr int64_t kSmall = 72, kTogether = 2048;      // elements of planes that are joined, and of those together
    static constexpr int64_t kEdge = gradient ? 2 : 1;           // rows at either end that are not like the others

    int64_t staging_size() const { return 2 * together_ * plane_ + 512 / int64_t(sizeof(S)); }

    // Masks and factors repeat after `period_` elements. Of planes that are not joined those of the rows at either end are kept for themselves.
    struct Rooms {
        Rooms(const NarrowPlanes& job, std::byte* base, bool stream) : arena(base) {
            const int64_t period = job.period_ + lanes, edges = job.small_ ? period : job.head_ + job.end_ - job.tail_;
            left = arena.take<Raw>(period), right = arena.take<Raw>(period);
            factors = arena.take<A>(period);
            above = arena.take<Raw>(edges), below = arena.take<Raw>(edges);
            edge_factors = arena.take<A>(edges);
            for (A*& row : weights) row = gradient ? arena.take<A>(edges) : nullptr;
            lone = arena.take<S>(job.together_ * job.plane_ + 2 * job.wide_ + lanes);
            if (stream) staging = arena.take<S>(job.staging_size() + lanes);
        }
        Arena arena;
        Raw *left, *right, *above, *below;  // whether there is a neighbour
        A *factors, *edge_factors;          // forward: divisors; gradient: weights along width
        A* weights[3];                      // gradient: of the row above, of its own, of the one below
        S *lone, *staging = nullptr;
    };
    void prepare(const Rooms& rooms) const {
        const auto factor = [&](int64_t h, int64_t w) {
            if constexpr (gradient)
                return A(1) / A(width_.axis->divisor(w));
            else
                return Divisor().times(depth_.axis->divisor(0)).times(height_.axis->divisor(h)).times(width_.axis->divisor(w)).template as<A>();
        };
        for (int64_t i = 0; i < period_ + lanes; ++i) {
            const int64_t w = i % wide_;
            rooms.left[i] = Raw(w > 0 ? -1 : 0), rooms.right[i] = Raw(w + 1 < wide_ ? -1 : 0);
            rooms.factors[i] = factor(1, w);
        }
        const auto fill = [&](int64_t first, int64_t last) {
            for (int64_t at = first; at < last; ++at) {
                const int64_t i = edge(at), h = at / wide_ % high_;
                rooms.above[i] = Raw(h > 0 ? -1 : 0), rooms.below[i] = Raw(h + 1 < high_ ? -1 : 0);
                rooms.edge_factors[i] = factor(h, at % wide_);
                for (int64_t j = 0; gradient && j < 3; ++j)
                    rooms.weights[j][i] = A(1) / A(height_.axis->divisor(std::clamp<int64_t>(h + j - 1, 0, high_ - 1)));
            }
        };
        if (small_) return fill(0, period_ + lanes);
        fill(0, head_), fill(tail_, end_);
    }
    // Where the tables of the edges have an element.
    int64_t edge(int64_t at) const { return small_ || at < tail_ ? at : at - tail_ + head_; }

    // Some planes, around which a row and a register may be read.
    const S* source(const Rooms& rooms, int64_t first, int64_t last) const {
        const S* from = static_cast<const S*>(call_.source) + first * plane_;
        if (first > 0 && last < planes_) return from;
        const int64_t size = (last - first) * plane_;
        std::memset(rooms.lone, 0, std::size_t(size + 2 * wide_ + lanes) * sizeof(S));
        std::memcpy(rooms.lone + wide_, from, std::size_t(size) * sizeof(S));
        return rooms.lone + wide_;
    }

    // The sum down of the elements from `from` on; i is their index in the tables of the edges.
    POOLGRAD_INLINE Cell down(const Rooms& rooms, const S* from, int64_t i) const {
        const int64_t wide = wide_;
        const auto nothing = spread<A, lanes>(A(-0.0));
        A* const* weights = rooms.weights;
        const auto term = [=](int j) POOLGRAD_LAMBDA {
            const auto value = load<A, lanes>(from + (j - 1) * wide);
            if constexpr (gradient) return value * load<A, lanes>(weights[j] + i);
            return value;
        };
        const auto above = select<A, lanes>(load<Raw, lanes>(rooms.above + i), term(0), nothing);
        const auto below = select<A, lanes>(load<Raw, lanes>(rooms.below + i), term(2), nothing);
        const auto sum = (above + term(1)) + below;
        if constexpr (gradient) return sum * load<A, lanes>(rooms.edge_factors + i);
        return sum;
    }
    // The results of what is summed down; t is their index in the period.
    POOLGRAD_INLINE static Cell across(const Raw* left, const Raw* right, int64_t t, Cell before, Cell now, Cell next, const A* divisors) {
        const auto nothing = spread<A, lanes>(A(-0.0));
        const auto first = select<A, lanes>(load<Raw, lanes>(left + t), every_of<lanes - 1, 1>(before, now), nothing);
        const auto last = select<A, lanes>(load<Raw, lanes>(right + t), every_of<1, 1>(now, next), nothing);
        if constexpr (gradient) return (first + now) + last;
        return ((first + now) + last) / load<A, lanes>(divisors);
    }
    POOLGRAD_INLINE static void put_last(S* to, Cell result, int64_t count, bool over) {
        if (over || count == lanes) return store<A, lanes>(to, result);
        S rest[lanes];
        store<A, lanes>(rest, result);
        std::memcpy(to, rest, std::size_t(count) * sizeof(S));
    }

    POOLGRAD_NOINLINE void make_planes(const Rooms& rooms, const S* from, S* to, int64_t length, bool over) const {
        const Raw *const left = rooms.left, *const right = rooms.right;
        const auto nothing = spread<A, lanes>(A(-0.0));
        Cell before = nothing, now = down(rooms, from, 0);
        int64_t at = 0, t = 0;
        for (; at + lanes < length; at += lanes) {
            const Cell next = down(rooms, from + at + lanes, t + lanes);
            store<A, lanes>(to + at, across(left, right, t, before, now, next, rooms.edge_factors + t));
            before = now, now = next;
            t = t + lanes == period_ ? 0 : t + lanes;
        }
        put_last(to + at, across(left, right, t, before, now, nothing, rooms.edge_factors + t), length - at, over);
    }

    POOLGRAD_NOINLINE void make_plane(const Rooms& rooms, const S* from, S* to, bool over) const {
        const int64_t wide = wide_, head = head_, tail = tail_, end = end_, period = period_;
        const A weight = gradient ? A(1) / A(height_.axis->divisor(1)) : A(1);
        const A* const factors = rooms.factors;
        const Raw *const left = rooms.left, *const right = rooms.right;
        const auto plain = [=](int64_t at, int64_t t) POOLGRAD_LAMBDA {
            const auto a = load<A, lanes>(from + at - wide), b = load<A, lanes>(from + at), c = load<A, lanes>(from + at + wide);
            if constexpr (gradient) return ((a * weight + b * weight) + c * weight) * load<A, lanes>(factors + t);
            return (a + b) + c;
        };
        // Two pages on: the CPU foresees what follows within a page only.
        const auto fetch_ahead = [=](int64_t at) POOLGRAD_LAMBDA {
            if (at * int64_t(sizeof(S)) % 64 == 0) __builtin_prefetch(reinterpret_cast<const char*>(from + at) + 8192);
        };
        const auto is_edge = [=](int64_t at) POOLGRAD_LAMBDA { return at < head || at >= tail; };
        const auto divisors = [=, &rooms](int64_t at, int64_t t) POOLGRAD_LAMBDA { return is_edge(at) ? rooms.edge_factors + edge(at) : factors + t; };
        const auto nothing = spread<A, lanes>(A(-0.0));
        Cell before = nothing, now = down(rooms, from, 0);
        int64_t at = 0, t = 0;
        for (int part = 0; part < 2; ++part) {
            for (const int64_t last = part ? end - lanes : std::min(head, end - lanes); at < last; at += lanes) {
                fetch_ahead(at);
                const Cell next = is_edge(at + lanes) ? down(rooms, from + at + lanes, edge(at + lanes)) : plain(at + lanes, t + lanes);
                store<A, lanes>(to + at, across(left, right, t, before, now, next, divisors(at, t)));
                before = now, now = next;
                t = t + lanes == period ? 0 : t + lanes;
            }
            for (; !part && at + lanes < tail; at += lanes) {
                fetch_ahead(at);
                const Cell next = plain(at + lanes, t + lanes);
                store<A, lanes>(to + at, across(left, right, t, before, now, next, factors + t));
                before = now, now = next;
                t = t + lanes == period ? 0 : t + lanes;
            }
        }
        put_last(to + at, across(left, right, t, before, now, nothing, divisors(at, t)), plane_ - at, over);
    }

    const int64_t high_, wide_, planes_;
    int64_t plane_ = 0, period_ = 0, together_ = 1;
    int64_t head_ = 0, tail_ = 0, end_ = 0;  // edges lie before `head_` and from `tail_` on; the last register ends at `end_`
    bool small_ = false;                     // planes are joined, edges all over
};

}  // namespace poolgrad::POOLGRAD_ISA
