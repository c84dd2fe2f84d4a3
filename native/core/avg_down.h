// Sums over depth and height: where both have something to sum, over depth into rings of rows, then over height.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Destinations along one axis with the same source range, and that range.
struct Group {
    Range destinations, range;
};
struct Groups {
    int count = 0;
    Group groups[kTogether];
    Range all{0, 0};  // the union of their ranges
};
// The groups of the destinations from `first` on: at most `most`, and several only if none is empty or longer than a block, and
// all ranges together are within `room`.
inline Groups next_groups(const Side& side, int64_t first, int64_t last, int most, int64_t room) {
    Groups result;
    for (int64_t i = first; i < last; ++i) {
        const Range range = side.range(i);
        if (result.count && range == result.groups[result.count - 1].range) {
            result.groups[result.count - 1].destinations.last = i + 1;
            continue;
        }
        const bool joins = result.count < most && !result.all.empty() && !range.empty() && range.last - result.all.first <= room;
        if (result.count && !joins) break;
        result.all = {result.count ? result.all.first : range.first, range.last};
        result.groups[result.count++] = {{i, i + 1}, range};
    }
    return result;
}

// Of one box. S stored, A accumulated.
template <class S, class A, bool gradient>
class DownSums {
  public:
    // `row_size`: elements of a row of sums, at most; `inner`: those of the box.
    DownSums(const AveragePlan& plan, Arena& arena, int64_t row_size, Range inner)
        : plan_(plan), row_size_(row_size), inner_(inner),
          ring_(arena.take<A>((plan.apart() ? 1 : plan.ring_rows_ * plan.planes_) * row_size)),
          block_row_(plan.apart() ? arena.take<A>(row_size) : nullptr),
          turn_row_(!gradient && std::max(plan.depth_.longest(), plan.height_.longest()) > kBlock ? arena.take<A>(row_size) : nullptr) {}

    // To be called when other planes or columns follow: no row of the ring is made.
    void restart() { ring_last_ = 0; }

    // Rows `pitch` apart from `to` on <- the sums of some columns, [column][inner], one row for each group of heights, times the factors
    // if there are any. Not where depth and height are both trivial.
    void sum(int64_t outer, const Groups& depths, int plane, const Groups& heights, Range columns, A* to, int64_t pitch, const A* factors) {
        A* rows[kTogether];
        for (int j = 0; j < kTogether; ++j) rows[j] = to + j * pitch;
        if (plan_.depth_trivial_)
            sum_source(outer, depths.all.first, heights.all.first, plan_.height_, heights, columns, rows, factors);
        else if (plan_.height_trivial_)
            for (int j = 0; j < heights.count; ++j) {
                Groups one = depths;
                one.count = 1, one.groups[0] = depths.groups[plane], one.all = one.groups[0].range;
                sum_source(outer, one.all.first, heights.groups[j].range.first, plan_.depth_, one, columns, rows + j, factors);
            }
        else if (plan_.apart())
            sum_apart(outer, depths, heights.all, columns, rows[0], factors);
        else
            sum_ring(outer, depths, plane, heights, columns, rows, factors);
    }

  private:
    // to[j] + at <- the sum of the rows of the j-th group, times the factors if there are any; row 0 is the first of all groups.
    template <class Rows>
    POOLGRAD_NOINLINE static void sum_each(const Rows& rows, const A* weights, const Groups& groups, int64_t length, A* const* to, int64_t at,
                                           const A* factors) {
        Span spans[kTogether];
        StoreSink<A, A> sinks[kTogether];
        ScaleSink<A> scaled[kTogether];
        for (int j = 0; j < groups.count; ++j) {
            spans[j] = {int32_t(groups.groups[j].range.first - groups.all.first), int32_t(groups.groups[j].range.size())};
            sinks[j] = {to[j] + at}, scaled[j] = {to[j] + at, factors};
        }
        if constexpr (gradient)
            if (factors) return sum_spans<gradient>(rows, weights, spans, groups.count, length, scaled);
        if constexpr (!gradient)
            if (groups.count == 1 && spans[0].count > kManyRows) return sum_in_turn(rows, spans[0].count, length, to[0] + at);
        sum_spans<gradient>(rows, weights, spans, groups.count, length, sinks);
    }

    // to[j] <- the sum along depth or height of the source over the j-th range.
    POOLGRAD_NOINLINE void sum_source(int64_t outer, int64_t d, int64_t h, const Side& side, const Groups& groups, Range columns, A* const* to,
                                      const A* factors, int64_t together = 1) const {
        const int64_t inner = plan_.inner_, pitch = plan_.width_.sources() * inner * (&side == &plan_.depth_ ? plan_.height_.sources() : 1);
        const int64_t run = inner_.size();
        const bool joined = run == inner;  // whole runs lie side by side
        const int64_t pieces = joined ? 1 : columns.size(), length = joined ? columns.size() * run * together : run;
        const S* base = plan_.source_at<S>(outer, d, h, columns.first) + inner_.first;
        A weights[kBlock];
        if (groups.all.size() <= kBlock) {
            fill_weights<A>(side, groups.all.first, groups.all.size(), weights);
            for (int64_t i = 0; i < pieces; ++i) sum_each(FarRows<S>{{base + i * inner, pitch}}, weights, groups, length, to, i * run, factors);
            return;
        }
        for (int64_t first = 0; first < groups.all.size(); first += kBlock) {
            const int64_t count = std::min(kBlock, groups.all.size() - first);
            fill_weights<A>(side, groups.all.first + first, count, weights);
            for (int64_t i = 0; i < pieces; ++i) {
                const S* rows = base + first * pitch + i * inner;
                A* const sums = to[0] + i * run;
                if (gradient || count <= kManyRows) {
                    add_block<gradient>(PitchRows<S>{rows, pitch}, weights, count, length, sums, first != 0);
                    continue;
                }
                // There is room for one row of sums; several may lie side by side.
                for (int64_t at = 0; at < length; at += row_size_) {
                    const int64_t part = std::min(row_size_, length - at);
                    sum_in_turn(PitchRows<S>{rows + at, pitch}, count, part, first ? turn_row_ : sums + at);
                    if (first) sum_rows<false>(PitchRows<A>{turn_row_, 0}, weights, 1, part, AddSink<A>{sums + at});
                }
            }
        }
        if (factors) scale_row(to[0], factors, length);
    }

    // Over depth into rings of rows, one ring for each plane and one row for each source height, then over height.
    POOLGRAD_NOINLINE void sum_ring(int64_t outer, const Groups& depths, int plane, const Groups& heights, Range columns, A* const* to,
                                    const A* factors) {
        const int64_t length = columns.size() * inner_.size(), ring_rows = plan_.ring_rows_;
        const auto row = [&](int64_t i, int64_t slot) { return ring_ + (i * ring_rows + slot) * row_size_; };
        const A* rows[kBlock];
        const int64_t begin = heights.all.first % ring_rows, split = heights.all.first + ring_rows - begin;  // where the ring begins anew
        const auto slot_of = [&](int64_t h) { return h < split ? begin + h - heights.all.first : h - split; };
        const bool whole_rows = inner_.size() == plan_.inner_ && columns.size() == plan_.width_.sources() && length == row_size_;
        for (int64_t h = std::max(ring_last_, heights.all.first); h < heights.all.last;) {
            // Rows that lie side by side on both sides are made at once.
            const int64_t count = whole_rows ? (h < split ? std::min(split, heights.all.last) : heights.all.last) - h : 1;
            A* sums[kTogether];
            for (int i = 0; i < depths.count; ++i) sums[i] = row(i, slot_of(h));
            sum_source(outer, depths.all.first, h, plan_.depth_, depths, columns, sums, nullptr, count);
            ring_last_ = h += count;
        }
        for (int64_t h = heights.all.first; h < heights.all.last; ++h) rows[h - heights.all.first] = row(plane, slot_of(h));
        A weights[kBlock];
        fill_weights<A>(plan_.height_, heights.all.first, heights.all.size(), weights);
        sum_each(PointerRows<A>{rows}, weights, heights, length, to, 0, factors);
    }

    // The same where a range of heights has too many rows for a ring: each row is made when needed and added at once.
    void sum_apart(int64_t outer, const Groups& depths, Range heights, Range columns, A* to, const A* factors) const {
        const int64_t length = columns.size() * inner_.size();
        A weight[1] = {A(1)};
        for (int64_t h = heights.first; h < heights.last; ++h) {
            sum_source(outer, depths.all.first, h, plan_.depth_, depths, columns, &ring_, nullptr);
            const int64_t in_block = (h - heights.first) % kBlock;
            fill_weights<A>(plan_.height_, h, 1, weight);
            add_block<gradient>(PitchRows<A>{ring_, 0}, weight, 1, length, block_row_, in_block != 0);
            if (in_block != kBlock - 1 && h != heights.last - 1) continue;
            if (h - heights.first >= kBlock)
                sum_rows<false>(PitchRows<A>{block_row_, 0}, weight, 1, length, AddSink<A>{to});
            else
                sum_rows<false>(PitchRows<A>{block_row_, 0}, weight, 1, length, StoreSink<A, A>{to});
        }
        if (factors) scale_row(to, factors, length);
    }

    static constexpr int64_t kManyRows = 24;  // that the CPU does not foresee by turns

    const AveragePlan& plan_;
    const int64_t row_size_;
    const Range inner_;
    A *const ring_, *const block_row_, *const turn_row_;  // turn_row_: of a further block that is summed in turn
    int64_t ring_last_ = 0;  // rows of the ring are made up to this height
};

}  // namespace poolgrad::POOLGRAD_ISA
