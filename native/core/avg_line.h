// Rows whose inner runs are short, of a regular axis: a row is laid out in scratch and summed as a whole, added to itself shifted, for
// strides above 1 in phases.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// The row of a box: from which index of the source on it runs, and how long it is. Beyond the source it holds -0.0, which added to
// anything changes nothing. A accumulated, T the results.
template <class A, class T, bool gradient>
class Line {
    static constexpr bool integers = std::is_integral_v<A>;
    static constexpr int64_t kCacheLine = 64 / int64_t(sizeof(A));  // elements

  public:
    static constexpr int64_t kSlack = 2 * kCacheLine;  // elements that may be read behind the rows, which are moved by some

    // Elements of the longest line of boxes with `tile` destinations along width.
    static int64_t size(const Rule& rule, int64_t inner, int64_t tile) {
        const int64_t columns = gradient ? divide_up(tile, rule.stride) + divide_up(rule.window, rule.stride) + 1
                                         : (tile + 1) * rule.stride + rule.window;
        return divide_up(columns * inner, 64) * 64;
    }

    Line() = default;
    Line(Arena& arena, const Rule& rule, int64_t inner, int64_t tile) : rule_(&rule), inner_(inner) {
        const int64_t size = Line::size(rule, inner, tile);
        if (!gradient && rule.stride > 1) phases_ = arena.take<A>(size + rule.stride * inner);
        if (gradient) {
            more_ = arena.take<T>(size + GroupRow<T>::kSlack), fewer_ = arena.take<T>(size + GroupRow<T>::kSlack);
            finished_ = arena.take<T>(tile * inner);
            group_row_ = GroupRow<T>(arena, rule, inner);
        }
    }

    // Prepares for a box kTogether rows, `pitch` apart from `rows` on. Returns where the first one begins then.
    A* prepare(Range box, A* rows, int64_t pitch) {
        const Rule& rule = *rule_;
        int64_t length = (box.size() - 1) * rule.stride + rule.window;
        first_ = box.first * rule.stride - rule.before;
        if constexpr (gradient) {
            const int64_t group = (box.first + rule.before) / rule.stride, lead = box.first + rule.before - group * rule.stride;
            groups_ = (box.last - 1 + rule.before) / rule.stride - group + 1;
            terms_ = divide_up(rule.window, rule.stride);
            first_ = group - terms_ + 1, length = groups_ + terms_ - 1;
            group_row_.prepare(lead);
        }
        columns_ = {std::max<int64_t>(0, first_), std::min(sources(), first_ + length)};
        rows += (kCacheLine - (columns_.first - first_) * inner_ % kCacheLine) % kCacheLine;  // so that inside() begins a line of the cache
        for (int j = 0; j < kTogether; ++j) std::fill_n(rows + j * pitch, length * inner_, A(-0.0));
        return rows;
    }
    Range columns() const { return columns_; }  // of the source

    // The source's part of a line.
    A* inside(A* row) const { return row + (columns_.first - first_) * inner_; }
    // The line `row` <- the source's columns, in a gradient with their weights along width.
    template <class S>
    void fill(A* row, const S* source, const A* weights) const {
        A* to = inside(row);
        if constexpr (gradient)
            sum_rows<false, A>(PitchRows<S>{source, 0}, to, 1, columns_.size() * inner_, ScaleSink<A>{to, weights});
        else
            sum_rows<false, A>(PitchRows<S>{source, 0}, to, 1, columns_.size() * inner_, StoreSink<A, A>{to});
    }

    // to <- the `length` results of a line with stride 1, forward divided.
    POOLGRAD_INLINE void sum_shifted(const A* row, int64_t length, const A* divisors, T* to) const {
        if constexpr (gradient)
            sum_covers(row, terms_, to);
        else
            sum_steps(row, rule_->window, length, DivideRowSink<A, T>{to, divisors});
    }

    // to <- the `count` results of a line, floats divided.
    void sum_forward(const A* row, int64_t count, const A* divisors, T* to) const {
        const int64_t stride = rule_->stride, window = rule_->window;
        const auto sum_all = [&](const auto& rows) {
            if constexpr (integers)
                sum_rows<false, A>(rows, row, window, count * inner_, StoreSink<A, T>{to});
            else
                sum_rows<false, A>(rows, row, window, count * inner_, DivideRowSink<A, T>{to, divisors});
        };
        if (stride == 1) return sum_all(PitchRows<A>{row, inner_});
        // Phase r holds every stride-th element from the r-th on; term t of all windows is phase t % stride, shifted by t / stride.
        const A *starts[kBlock], *rows[kBlock];
        A* phase = phases_;
        for (int64_t r = 0; r < std::min(stride, window); ++r) {
            const int64_t taken = count + (window - 1 - r) / stride;
            take_strided(phase, row + r * inner_, taken, stride, inner_);
            starts[r] = phase;
            phase += taken * inner_;
        }
        for (int64_t t = 0; t < window; ++t) rows[t] = starts[t % stride] + t / stride * inner_;
        sum_all(PointerRows<A>{rows});
    }

    // to <- the `count` results of a line of a gradient. Destinations i with i + before = q * stride + r form group q. Those with
    // r < window % stride sum `terms` sources that end at q, the others one less. Rows of the same source are the same: unless it is the
    // `only` one, the `first` is kept for the others.
    void sum_gradient(const A* row, int64_t count, bool first, bool only, T* to) const {
        if (first) {
            sum_covers(row, terms_, more_);
            if (rule_->window % rule_->stride) sum_covers(row, terms_ - 1, fewer_);
            group_row_.lay(only ? to : finished_, more_, fewer_, count);
        }
        if (!only) copy_row(to, finished_, count * inner_);
    }

  private:
    int64_t sources() const { return gradient ? rule_->output_size : rule_->input_size; }

    // sink <- the sums of this many neighbouring columns of a line.
    template <class Sink>
    POOLGRAD_INLINE void sum_steps(const A* row, int64_t count, int64_t length, const Sink& sink) const {
        if (inner_ == 1)
            sum_neighbours(row, count, length, sink);
        else
            sum_line(row, inner_, count, length, sink);
    }
    // result <- the sums of `terms` sources that end at each group.
    void sum_covers(const A* row, int64_t terms, T* result) const {
        // Groups from here on are past the last output: nothing covers them.
        const int64_t end = sources() + terms - first_ - terms_;
        const int64_t covered = terms ? std::clamp<int64_t>(end, 0, groups_) : 0;
        if (covered) sum_steps(row + (terms_ - terms) * inner_, terms, covered * inner_, StoreSink<A, T>{result});
        if (covered < groups_) std::memset(result + covered * inner_, 0, std::size_t((groups_ - covered) * inner_) * sizeof(T));
    }

    const Rule* rule_ = nullptr;
    int64_t inner_ = 0, first_ = 0;
    Range columns_{0, 0};
    int64_t groups_ = 0, terms_ = 0;  // gradient: groups of `stride` destinations, terms of the longer sums
    A* phases_ = nullptr;
    T *more_ = nullptr, *fewer_ = nullptr, *finished_ = nullptr;
    GroupRow<T> group_row_;
};

}  // namespace poolgrad::POOLGRAD_ISA
