// Geometry of pooling: one Axis per pooled axis, a Table of at most three of them. Kernels ask, they never compute windows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace poolgrad {

// Half-open interval of indices; empty when first >= last.
struct Range {
    int64_t first, last;
    int64_t size() const { return last - first; }
    bool empty() const { return first >= last; }
    Range from(int64_t start) const { return {first - start, last - start}; }  // counted from there on
    bool operator==(const Range& other) const { return first == other.first && last == other.last; }
};

// A regular axis, u = i * stride - before: window(i) = [max(0, u), min(input_size, u + window)).
// divisor(i) = divisor, or when that is 0 the length of [u, u + window) clipped to
// [-count_before, input_size + count_after).
struct Rule {
    int64_t input_size, output_size, window, stride, before, count_before, count_after, divisor, reach;
};

class Axis {
  public:
    // Both check their arguments and throw std::invalid_argument. reach 0 means "the longest window".
    static Axis regular(Rule rule);
    static Axis listed(int64_t input_size, std::vector<int64_t> start, std::vector<int64_t> stop,
                       std::vector<int64_t> divisor, int64_t reach);

    int64_t input_size() const { return rule_.input_size; }
    int64_t output_size() const { return rule_.output_size; }
    // Length of the longest window (of the whole axis when this is a part): the base of winner codes.
    int64_t reach() const { return rule_.reach; }
    const Rule* rule() const { return lists_ ? nullptr : &rule_; }

    Range window(int64_t output) const {
        if (lists_) return {lists_->start[std::size_t(output)], lists_->stop[std::size_t(output)]};
        const int64_t first = output * rule_.stride - rule_.before, last = first + rule_.window;
        return {first > 0 ? first : 0, last < rule_.input_size ? last : rule_.input_size};
    }

    int64_t divisor(int64_t output) const {
        if (lists_) return lists_->divisor[std::size_t(output)];
        if (rule_.divisor) return rule_.divisor;
        const int64_t first = output * rule_.stride - rule_.before, last = first + rule_.window;
        const int64_t low = -rule_.count_before, high = rule_.input_size + rule_.count_after;
        return (last < high ? last : high) - (first > low ? first : low);
    }

    // The outputs whose windows hold this input.
    Range cover(int64_t input) const {
        if (lists_) return {lists_->cover_first[std::size_t(input)], lists_->cover_last[std::size_t(input)]};
        const int64_t shifted = input + rule_.before;
        const int64_t above = strides_in(shifted) + 1;
        const int64_t last = above < rule_.output_size ? above : rule_.output_size;
        const int64_t first = shifted < rule_.window ? 0 : strides_in(shifted - rule_.window) + 1;
        return {first < last ? first : last, last};
    }

    int64_t longest_window() const { return longest_window_; }
    int64_t longest_cover() const { return longest_cover_; }
    int64_t largest_divisor() const { return largest_divisor_; }  // or more than any
    // Every window is [i, i + 1) with divisor 1: pooling along it changes nothing.
    bool is_identity() const { return identity_; }

    // Outputs [first, last) as an axis over the inputs [start, stop) they read.
    struct Part;
    Part part(int64_t first, int64_t last) const;

  private:
    struct Lists {
        std::vector<int64_t> start, stop, divisor, cover_first, cover_last;
    };
    Axis() = default;

    // length / stride. By a product where both are below 2^32: a division takes 20 cycles, and covers are asked for each row.
    int64_t strides_in(int64_t length) const {
        if ((length | rule_.stride) >> 32) return length / rule_.stride;
        return rule_.stride == 1 ? length : int64_t((unsigned __int128)(inverse_) * uint64_t(length) >> 64);
    }

    Rule rule_{};  // of a listed axis only input_size, output_size and reach count
    std::shared_ptr<const Lists> lists_;
    uint64_t inverse_ = 0;  // floor(2^64 / stride) + 1
    int64_t longest_window_ = 1, longest_cover_ = 1, largest_divisor_ = 1;
    bool identity_ = false;
};

struct Axis::Part {
    Axis axis;
    int64_t start, stop;
};

// The product of its axes, always three: lower ranks have leading unit axes.
class Table {
  public:
    explicit Table(const std::vector<Axis>& axes);
    std::size_t rank() const { return rank_; }
    const Axis& axis(std::size_t i) const { return axes_[i]; }
    // Bytes of the smallest unsigned integer that holds every winner code; throws when no 64-bit one does.
    int winner_bytes() const;

  private:
    std::size_t rank_;
    std::vector<Axis> axes_;
};

// How a call runs over memory: [outer, three axes, inner]. Identity axes are folded into outer or inner, so that a pooling
// along one axis of a volume is a pooling with a long inner run. code_step is what one step along an axis adds to a winner code.
struct Layout {
    int64_t outer, inner;
    std::array<const Axis*, 3> axes;
    std::array<uint64_t, 3> code_step;

    Layout(const Table& table, int64_t outer, int64_t inner);
};

}  // namespace poolgrad
