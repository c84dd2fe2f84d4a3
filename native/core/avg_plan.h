// How averages are made that no other class takes: the way of a row along width, and the sizes of boxes and of scratch.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// How a row is summed along width.
enum class Across {
    direct,  // inner is long, windows are small: each destination at once, over all axes
    runs,    // inner is long: each destination is a sum of runs of the row
    line,    // inner is short, the axis regular: the whole row at once, shifted (stride 1) or in phases
    blocks,  // a single range exceeds a row of scratch: one destination at a time, its range in blocks
};

struct AveragePlan : Sides {
    // S stored, A accumulated.
    template <class S, class A>
    AveragePlan(const AverageCall& call, bool gradient, Type<S>, Type<A>)
        : Sides(call, gradient), gradient_(gradient), integers_(std::is_integral_v<A>), stored_bytes_(int64_t(sizeof(S))), lanes_(kLanes<A>),
          depth_trivial_(depth_.axis->is_identity()), height_trivial_(height_.axis->is_identity()), regular_(width_.axis->rule() != nullptr) {}

    // Whether planes are faster turned: rows that are irregular or fill few registers.
    bool turns() const {
        if (!can_turn(call_.layout)) return false;
        const int64_t widest = std::max(width_.sources(), width_.destinations());
        return !regular_ || (!integers_ && !(fits_line() && widest >= 64));
    }

    // Sizes of the scratch and of a box.
    void plan(Tiling& tiling) {
        const bool both = !depth_trivial_ && !height_trivial_;
        const bool direct = !gradient_ && inner_ >= 2 * lanes_ && inner_ <= kDirectRun && is_direct();
        back_ = is_back();
        ring_rows_ = both && !direct && !back_ ? std::min(height_.together(kTogether), kBlock) : 0;
        planes_ = ring_rows_ && ring_rows_ <= 32 && !apart() ? kTogether : 1;
        // Elements of one row of sums: 4096, or as many as keep the columns that neighbouring boxes both sum below a sixth, or of few
        // rows, which come from memory, a whole one, within 16384 (64 KiB of floats) and the ring of rows within 2 MiB of doubles.
        const int64_t most = std::clamp<int64_t>((256 << 10) / std::max<int64_t>(1, ring_rows_ * planes_), 1024, 16384);
        const int64_t block = std::min(width_.longest(), kBlock);
        run_ = direct || inner_ * block <= most ? inner_ : std::min(inner_, std::max<int64_t>(64, most / block / 16 * 16));
        // Long windows of one channel are summed side by side: of a long row, few are left.
        const bool beside = !gradient_ && inner_ == 1 && width_.longest() > kLongWindow;
        const bool few_rows = !back_ && depth_.longest() * height_.longest() <= (gradient_ ? 2 : 3);
        const int64_t least = beside || few_rows ? most : 4096;
        columns_ = std::max<int64_t>(1, std::min(most, std::max(least, 6 * width_.longest() * run_)) / run_);
        const bool line = run_ == inner_ && inner_ < kLineRun && fits_line();
        across_ = width_.longest() > columns_ ? Across::blocks : line ? Across::line : Across::runs;
        if (direct) across_ = Across::direct, columns_ = std::max(columns_, kCached / (depth_.longest() * height_.longest() * run_ * stored_bytes_));
        shifted_ = !integers_ && across_ == Across::line && rule_.stride == 1;
        const bool by_three = !integers_ && across_ == Across::runs && regular_ && run_ == inner_ && inner_ >= lanes_ && rule_.window == 3 &&
                              (!gradient_ || is_covered());
        three_ = by_three && (rule_.stride == 1 || (!gradient_ && rule_.stride == 2)) && height_.longest() <= 3;
        if (!gradient_ && long_windows() && across_ == Across::runs && in_place()) columns_ = kLongRow;
        int64_t across = across_ == Across::blocks ? 1 : std::min(fitting_tile(width_, columns_), columns_);
        if (long_windows() && across >= 2 * kBeside) across = across / kBeside * kBeside;
        columns_ = across_ == Across::blocks ? block : std::clamp<int64_t>(width_.sources(), 1, columns_);
        const int64_t down = depth_trivial_ ? tiling.extent[2] : cached_heights(columns_ * run_ * stored_bytes_);
        tiling.tile = {1, tiling.extent[1], down, across, run_};
    }

    // Whether rows of the source are summed where they lie.
    bool in_place() const { return depth_trivial_ && height_trivial_; }
    // Whether a range of heights has too many rows for a ring.
    bool apart() const { return ring_rows_ && height_.longest() > kBlock; }
    // Whether windows of one channel are so long that several are summed side by side.
    bool long_windows() const {
        return inner_ == 1 && (across_ == Across::blocks || (across_ == Across::runs && width_.longest() > kLongWindow));
    }

    const bool gradient_, integers_;
    const int64_t stored_bytes_, lanes_;  // of an element, of a register of sums
    const bool depth_trivial_, height_trivial_;
    const bool regular_;  // width has a rule
    Across across_ = Across::runs;
    bool shifted_ = false;   // lines with stride 1
    bool back_ = false;      // a gradient of windows of 3 by 2, inner long, over all axes at once
    bool three_ = false;     // windows of 3 by 1, forward also by 2, inner long
    int planes_ = 1;         // destination planes made together
    int64_t ring_rows_ = 0;  // of sums over depth, for each of these; 0 when depth or height has nothing to sum
    int64_t run_ = 1;        // inner elements of a box
    int64_t columns_ = 1;    // source columns of a box, at most

  private:
    static constexpr int64_t kDirect = 16, kDirectOverlapping = 9, kDirectTerms = 64;  // rows of windows apart, terms of others
    static constexpr int64_t kDirectRun = 2048;  // inner elements: so few are not cut, as a rest could be less than a register
    // Bytes of the rows of a box that is averaged directly. Whole rows are one run through memory: with few columns and all heights means of
    // 2 x 2 took up to 1.7 times as long.
    static constexpr int64_t kCached = 512 << 10;
    static constexpr int64_t kLineRun = 16;      // inner elements: of fewer, rows are summed as a whole
    static constexpr int64_t kLongWindow = 32;   // elements; longer ones are summed side by side
    static constexpr int64_t kLongRow = 32768;   // columns of a box then, which needs no room for them
    static constexpr int64_t kBeside = 16;       // windows that are summed so, of any type

    // Whether it is a gradient of windows of 3 by 2 whose inputs have at most two outputs along every axis.
    bool is_back() const {
        return gradient_ && regular_ && rule_.window == 3 && rule_.stride == 2 && depth_.longest() <= 2 && height_.longest() <= 2 &&
               inner_ >= kLineRun && inner_ <= kDirectRun && is_covered();
    }
    // Whether a row can be summed as a whole.
    bool fits_line() const {
        if (!regular_) return false;
        const int64_t terms = gradient_ ? divide_up(rule_.window, rule_.stride) : rule_.window;
        return rule_.window <= rule_.input_size && terms <= kBlock && (gradient_ ? terms <= rule_.output_size : rule_.stride <= 64);
    }
    // Whether windows are so small, or have so little in common, that sharing it is not worth it. Those of 3 have a way of their own.
    bool is_direct() const {
        bool apart = true;
        for (const Side& side : {depth_, height_, width_}) apart = apart && side.axis->longest_cover() == 1;
        const bool by_three = regular_ && rule_.window == 3 && rule_.stride <= 2;
        const int64_t rows = depth_.longest() * height_.longest(), terms = rows * width_.longest();
        if (apart) return rows <= kDirect && width_.longest() <= kBlock;
        if (terms <= (by_three ? 0 : kDirectOverlapping)) return true;
        return inner_ >= 4 * lanes_ && terms <= kDirectTerms && double(terms) <= by_axes(*depth_.axis, *height_.axis, *width_.axis);
    }
};

}  // namespace poolgrad::POOLGRAD_ISA
