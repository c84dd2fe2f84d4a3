#include "axis.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace poolgrad {

namespace {

constexpr int64_t kLimit = int64_t(1) << 62;

void check(bool good, const char* message) {
    if (!good) throw std::invalid_argument(message);
}

// a * b + c within the limit that keeps all index arithmetic free of overflow; a, b, c >= 0.
bool fits(int64_t a, int64_t b, int64_t c) {
    int64_t product, sum;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(product, c, &sum) && sum < kLimit;
}

const Axis& unit_axis() {
    static const Axis unit = Axis::regular({1, 1, 1, 1, 0, 0, 0, 0, 0});
    return unit;
}

}  // namespace

Axis Axis::regular(Rule rule) {
    check(rule.input_size >= 0 && rule.output_size >= 0, "Axis.regular: input_size and output_size must be >= 0");
    check(rule.window >= 1 && rule.stride >= 1, "Axis.regular: window and stride must be >= 1");
    check(rule.before >= 0 && rule.count_before >= 0 && rule.count_after >= 0 && rule.divisor >= 0 && rule.reach >= 0,
          "Axis.regular: before, count_before, count_after, divisor and reach must be >= 0");
    for (int64_t size : {rule.input_size, rule.window, rule.before, rule.count_before, rule.count_after})
        check(size < kLimit / 8, "Axis.regular: sizes must stay below 2**59");
    check(fits(rule.output_size, rule.stride, rule.window + rule.input_size + rule.before),
          "Axis.regular: output_size * stride + window + input_size + before must stay below 2**62");
    Axis axis;
    axis.rule_ = rule;
    axis.inverse_ = UINT64_MAX / uint64_t(rule.stride) + 1;
    int64_t longest = 1;
    if (rule.output_size > 0) {
        check(rule.window > rule.before && (rule.output_size - 1) * rule.stride - rule.before < rule.input_size,
              "Axis.regular: every window must hold at least one input element");
        // The clipped length is concave in i: its maximum stands next to one of the two places where clipping sets in.
        const int64_t inside = std::max<int64_t>(0, rule.input_size - rule.window + rule.before);
        for (int64_t near : {rule.before / rule.stride, inside / rule.stride})
            for (int64_t i : {near, near + 1})
                longest = std::max(longest, axis.window(std::min(i, rule.output_size - 1)).size());
    }
    check(rule.reach == 0 || rule.reach >= longest, "Axis.regular: reach is shorter than the longest window");
    axis.rule_.reach = rule.reach ? rule.reach : longest;
    axis.longest_window_ = longest;
    axis.longest_cover_ =
        std::max<int64_t>(1, std::min(rule.output_size, (rule.window - 1) / rule.stride + 1));
    axis.largest_divisor_ = rule.divisor ? rule.divisor : std::min(rule.window, rule.input_size + rule.count_before + rule.count_after);
    axis.identity_ = rule.input_size == rule.output_size && rule.before == 0 &&
                     (rule.stride == 1 || rule.input_size <= 1) && longest == 1 &&
                     (rule.input_size == 0 || (axis.divisor(0) == 1 && axis.divisor(rule.output_size - 1) == 1));
    return axis;
}

Axis Axis::listed(int64_t input_size, std::vector<int64_t> start, std::vector<int64_t> stop,
                  std::vector<int64_t> divisor, int64_t reach) {
    check(input_size >= 0 && input_size < kLimit / 8, "Axis.listed: input_size must be in [0, 2**59)");
    check(start.size() == stop.size() && start.size() == divisor.size(),
          "Axis.listed: start, stop and divisor must have the same length");
    const std::size_t count = start.size();
    int64_t longest = 1;
    for (std::size_t i = 0; i < count; ++i) {
        if (!(0 <= start[i] && start[i] < stop[i] && stop[i] <= input_size))
            throw std::invalid_argument("Axis.listed: window " + std::to_string(i) + " is [" + std::to_string(start[i]) +
                                        ", " + std::to_string(stop[i]) + "), not inside [0, " +
                                        std::to_string(input_size) + ") or empty");
        check(i == 0 || (start[i - 1] <= start[i] && stop[i - 1] <= stop[i]),
              "Axis.listed: start and stop must not decrease");
        check(divisor[i] >= 1, "Axis.listed: divisor must be >= 1");
        longest = std::max(longest, stop[i] - start[i]);
    }
    check(reach == 0 || (reach >= longest && reach < kLimit), "Axis.listed: reach is shorter than the longest window");
    Axis axis;
    axis.rule_.input_size = input_size;
    axis.rule_.output_size = int64_t(count);
    axis.rule_.reach = reach ? reach : longest;
    axis.longest_window_ = longest;
    auto lists = std::make_shared<Lists>();
    lists->cover_first.resize(std::size_t(input_size));
    lists->cover_last.resize(std::size_t(input_size));
    std::size_t first = 0, last = 0;
    for (int64_t i = 0; i < input_size; ++i) {
        while (first < count && stop[first] <= i) ++first;
        while (last < count && start[last] <= i) ++last;
        lists->cover_first[std::size_t(i)] = int64_t(std::min(first, last));
        lists->cover_last[std::size_t(i)] = int64_t(last);
        axis.longest_cover_ = std::max(axis.longest_cover_, int64_t(last) - int64_t(first));
    }
    if (count) axis.largest_divisor_ = *std::max_element(divisor.begin(), divisor.end());
    lists->start = std::move(start);
    lists->stop = std::move(stop);
    lists->divisor = std::move(divisor);
    axis.lists_ = std::move(lists);
    return axis;
}

Axis::Part Axis::part(int64_t first, int64_t last) const {
    if (first == last) return {regular({0, 0, 1, 1, 0, 0, 0, 0, rule_.reach}), 0, 0};
    const int64_t start = window(first).first, stop = window(last - 1).last;
    if (lists_) {
        const auto cut = [&](const std::vector<int64_t>& list, int64_t shift) {
            std::vector<int64_t> piece(list.begin() + first, list.begin() + last);
            for (int64_t& value : piece) value -= shift;
            return piece;
        };
        return {listed(stop - start, cut(lists_->start, start), cut(lists_->stop, start), cut(lists_->divisor, 0),
                       rule_.reach),
                start, stop};
    }
    Rule rule = rule_;
    rule.input_size = stop - start;
    rule.output_size = last - first;
    rule.before = start - (first * rule_.stride - rule_.before);
    // The limits of counting stay where they were in the whole axis.
    rule.count_before = rule_.count_before + start;
    rule.count_after = rule_.input_size + rule_.count_after - stop;
    return {regular(rule), start, stop};
}

Table::Table(const std::vector<Axis>& axes) : rank_(axes.size()) {
    check(rank_ >= 1 && rank_ <= 3, "Table: 1 to 3 axes");
    axes_.assign(3 - rank_, unit_axis());
    axes_.insert(axes_.end(), axes.begin(), axes.end());
}

int Table::winner_bytes() const {
    uint64_t product = 1;
    for (const Axis& axis : axes_)
        if (__builtin_mul_overflow(product, uint64_t(axis.reach()), &product) || product > uint64_t(1) << 63)
            throw std::invalid_argument("Table: windows hold more than 2**63 elements, winners cannot be numbered");
    const uint64_t largest = product - 1;
    return largest < (1u << 8) ? 1 : largest < (1u << 16) ? 2 : largest < (uint64_t(1) << 32) ? 4 : 8;
}

Layout::Layout(const Table& table, int64_t outer_size, int64_t inner_size)
    : outer(outer_size), inner(inner_size), axes{&table.axis(0), &table.axis(1), &table.axis(2)} {
    // Wrapping products: only the max family reads the steps, after winner_bytes() has checked them.
    code_step = {uint64_t(axes[1]->reach()) * uint64_t(axes[2]->reach()), uint64_t(axes[2]->reach()), 1};
    for (int turn = 0; turn < 3 && axes[2]->is_identity(); ++turn) {
        inner *= axes[2]->input_size();
        axes = {&unit_axis(), axes[0], axes[1]};
        code_step = {0, code_step[0], code_step[1]};
    }
    for (std::size_t i : {std::size_t(0), std::size_t(1)}) {
        if (!axes[i]->is_identity()) break;
        outer *= axes[i]->input_size();
        axes[i] = &unit_axis();
    }
    // Nothing is pooled: planes are joined to runs of some KiB. One by one, those of 16 elements took up to 12 times as long.
    if (!axes[0]->is_identity() || !axes[1]->is_identity() || !axes[2]->is_identity()) return;
    code_step = {0, 0, 1};  // all codes are 0
    for (int64_t factor = 2; factor < 32 && inner > 0 && outer > 1; ++factor)
        for (; outer % factor == 0 && inner * factor <= 1024; inner *= factor) outer /= factor;
}

}  // namespace poolgrad
