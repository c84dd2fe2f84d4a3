// Gradients of averages whose windows do not overlap, inner short: a register of inputs at a time is picked from one of outputs, weighed and
// stored to all rows of the window. What is picked is prepared for a unit, as large as its registers come from one: some planes, a plane or a
// row. All others are like it.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class A>
class PickedFill : Sides {
    static constexpr int lanes = kLanes<A>;

  public:
    explicit PickedFill(const AverageCall& call) : Sides(call, true) {
        if (inner_ < 1 || inner_ > lanes) return;
        for (const Side* side : sides_)
            if (side->longest() != 1 || side->sources() == 0 || side->destinations() == 0) return;
        // Neighbours that come from one window are alike: behind the last of a run, row or plane of outputs comes its first once more. So these
        // must fit into a register.
        const int64_t row = width_.sources() * inner_, plane = height_.sources() * row;
        const int64_t rows = width_.destinations() * inner_, planes = height_.destinations() * rows;
        if (depth_.sources() * plane == inner_) return;  // global ones are runs of one number
        const bool joins_rows = height_.destinations() == 1 || (row <= lanes && rows < kLongRow);
        const bool joins_planes = joins_rows && (depth_.destinations() == 1 || plane <= lanes);
        const auto fits = [&](int64_t unit) {
            double all = double(call_.layout.outer) * double(inner_);
            for (const Side* side : sides_) all *= double(side->destinations());
            return unit <= kMost && all >= double(kUnits + 2 * unit) * double(unit);
        };
        if (joins_planes && planes <= kMost && fits(depth_.destinations() * planes))
            first_ = 0;
        else if (joins_rows && planes >= lanes && fits(planes))
            first_ = 1;
        else if (rows >= lanes && fits(rows) && !(inner_ == 1 && rule_.stride == 2 && rows > kPairs))
            first_ = 2;
    }

    bool usable() const { return kVectorBytes == 32 && first_ < 3; }

    void run(int64_t traffic) {
        stream_ = is_streamed(traffic);
        Tiling tiling{destinations(), destinations()};
        tiling.tile[0] = 1;
        if (first_ == 2) tiling.tile[2] = std::min(tiling.tile[2], kLines);
        if (first_ == 1) tiling.tile[1] = std::min(tiling.tile[1], kLines);
        balance(tiling, call_.workers, divide_up(traffic, tiling.elements()));
        unit_ = inner_;
        for (std::size_t i = std::size_t(first_) + 1; i < 4; ++i) unit_ *= tiling.tile[i] = tiling.extent[i];  // is not cut
        if (first_ == 0) {
            joined_ = std::min(tiling.extent[0], divide_up(kJoined, unit_));
            tiling.tile[0] = divide_up(tiling.tile[0], joined_) * joined_;
            unit_ *= joined_;
        }
        const int64_t sources = first_ ? sides_[first_ - 1]->sources() : 0;
        const bool common = sources <= kLines;
        lines_ = common ? sources : std::min(sources, tiling.tile[std::size_t(first_)]);
        const Rooms measure(*this, nullptr);
        const Scratch for_all(common ? measure.arena.used() : 0);
        std::optional<Rooms> prepared;
        if (common) prepare(prepared.emplace(*this, for_all.data()), tiling.whole());
        run_boxes(tiling, call_.workers, traffic, measure.arena.used(), [&](const Box& box, std::byte* scratch) {
            Rooms rooms(*this, scratch);
            Writer<S> writer(static_cast<S*>(call_.destination), rooms.staging, staging_size());
            if (prepared)
                rooms.unit = prepared->unit;
            else
                prepare(rooms, box);
            if (first_ == 0)
                volumes(rooms, writer, box);
            else
                for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) lines(rooms, writer, box, outer);
            writer.finish();
        });
    }

  private:
    using Block = typename Places<A>::template Block<S>;
    static constexpr int64_t kMost = 1024, kJoined = 256;  // elements of a unit; fewer are joined
    static constexpr int64_t kLongRow = 16;                // elements of rows that are not
    static constexpr int64_t kUnits = 96;                  // of fewer, preparing one is not worth it; large ones take longer
    // Elements of rows of pairs; longer ones are as fast laid one after the other, and faster where they come from memory.
    static constexpr int64_t kPairs = 512 / int64_t(sizeof(S));
    static constexpr int64_t kLines = 1024;                // units of a box along the axis before them

    int64_t staging_size() const { return 2 * kMost + 512 / int64_t(sizeof(S)); }

    // The units that one of the source makes.
    struct Line {
        Range made;
        A weight;
        int64_t alike;  // so many from this one on follow each other and make as many units, with the same weight
    };
    // What is the same in all boxes, unless lines are cut.
    struct Unit {
        Places<A> places;
        Line* lines;
        int64_t line = 0;          // the first of the source
        int64_t from = 0, to = 0;  // elements
    };
    // Where destinations along an axis come from, or -1, and with which weights.
    struct Along {
        int64_t count;
        int32_t* from;
        A* weights;
    };
    struct Rooms {
        Rooms(const PickedFill& job, std::byte* base) : arena(base) {
            unit.places = Places<A>(arena, job.unit_);
            unit.lines = arena.take<Line>(job.lines_);
            for (int i = 0; i < 3; ++i) {
                const int64_t count = i < job.first_ ? 1 : job.sides_[i]->destinations();
                along[i] = {count, arena.take<int32_t>(count), arena.take<A>(count)};
            }
            end = arena.take<S>(job.unit_ + Places<A>::kSlack);
            if (job.stream_) staging = arena.take<S>(job.staging_size());
        }
        Arena arena;
        Unit unit;
        Along along[3];
        S *end, *staging = nullptr;  // end: of the source, with room behind it
    };
    static A weight_of(const Side& side, int64_t source) { return A(1) / A(side.axis->divisor(source)); }

    void prepare(Rooms& rooms, const Box& box) const {
        Unit& unit = rooms.unit;
        int64_t size[3], row = inner_;  // of the source along an axis, and what lies along the axes behind it
        for (int axis = 3; axis-- > 0; row *= size[axis]) {
            const Side& side = *sides_[axis];
            size[axis] = axis < first_ ? 1 : side.sources();
            const Along& along = rooms.along[axis];
            std::fill_n(along.from, along.count, axis < first_ ? 0 : -1), std::fill_n(along.weights, along.count, A(1));
            for (int64_t i = 0; i < size[axis] && axis >= first_; ++i) {
                const Range window = side.axis->window(i);
                std::fill_n(along.from + window.first, window.size(), int32_t(i * row));
                std::fill_n(along.weights + window.first, window.size(), weight_of(side, i));
            }
        }
        const Along &depths = rooms.along[0], &heights = rooms.along[1], &widths = rooms.along[2];
        int64_t at = 0;
        for (int64_t d = 0; d < depths.count; ++d)
            for (int64_t h = 0; h < heights.count; ++h) {
                const int32_t before = depths.from[d] < 0 || heights.from[h] < 0 ? -1 : depths.from[d] + heights.from[h];
                for (int64_t w = 0; w < widths.count; ++w, at += inner_) {
                    const int32_t from = before < 0 || widths.from[w] < 0 ? -1 : before + widths.from[w];
                    unit.places.set(at, inner_, from, {depths.weights[d], heights.weights[h], widths.weights[w]});
                }
            }
        unit.places.finish(at, joined_, row);
        unit.from = row * joined_, unit.to = at * joined_;
        if (first_ == 0) return;
        const Side& side = *sides_[first_ - 1];
        const Range sources = side.range(first_ == 2 ? box.height : box.depth);
        unit.line = sources.first;
        for (int64_t i = sources.last; i-- > sources.first;) {
            Line& line = unit.lines[i - sources.first];
            line = {side.axis->window(i), weight_of(side, i), 1};
            if (i + 1 == sources.last) continue;
            const Line& next = *(&line + 1);
            if (line.made.last == next.made.first && line.made.size() == next.made.size() && line.weight == next.weight) line.alike += next.alike;
        }
    }

    // How many units of the source, of this size, may be read from there on together with what is behind them.
    int64_t readable(const S* from, int64_t size) const {
        const int64_t all = call_.layout.outer * depth_.sources() * height_.sources() * width_.sources() * inner_;
        const int64_t left = static_cast<const S*>(call_.source) + all - from - size - Places<A>::kSlack;
        return left < 0 ? 0 : left / size + 1;
    }
    // A copy of the last ones.
    static const S* at_end(const Rooms& rooms, const S* from, int64_t size) {
        std::memcpy(rooms.end, from, std::size_t(size) * sizeof(S));
        return rooms.end;
    }

    // Units of some planes.
    void volumes(Rooms& rooms, Writer<S>& writer, const Box& box) const {
        const int64_t plane = rooms.unit.from / joined_, to = rooms.unit.to / joined_;
        const int64_t most = rooms.staging ? std::max<int64_t>(1, kMost / rooms.unit.to) : INT64_MAX;
        for (int64_t i = box.outer.first; i < box.outer.last;) {
            const S* from = static_cast<const S*>(call_.source) + i * plane;
            const int64_t left = box.outer.last - i, size = rooms.unit.from, units = std::min({left / joined_, most, readable(from, size)});
            const int64_t some = units ? units * joined_ : std::min(joined_, left), count = units ? rooms.unit.to : some * to;
            if (!units) from = at_end(rooms, from, some * plane);
            rooms.unit.places.lay(Block{from, writer.row(i * to, some * to), count, 1, std::max<int64_t>(1, units), size});
            i += some;
        }
    }

    // Units along an axis: planes or rows.
    void lines(Rooms& rooms, Writer<S>& writer, const Box& box, int64_t outer) const {
        const bool rows = first_ == 2;
        const Side& along = *sides_[first_ - 1];
        const Range all = rows ? box.height : box.depth;
        const int64_t count = rooms.unit.to, further = rooms.unit.from;
        const int64_t most = rooms.staging ? std::max<int64_t>(1, kMost / count) : INT64_MAX;  // in the buffer
        for (int64_t d = rows ? box.depth.first : 0; d < (rows ? box.depth.last : 1); ++d) {
            const Range depths = rows ? depth_.range(d) : Range{0, 1};
            if (rows && !depths.empty()) rooms.unit.places.set_weight(0, weight_of(depth_, depths.first));
            const int64_t base = rows ? destination_at(outer, d, 0, 0) : destination_at(outer, 0, 0, 0);
            int64_t done = all.first;
            const auto zero_until = [&](int64_t end) {
                for (; done < end; ++done) std::memset(writer.row(base + done * count, count), 0, std::size_t(count) * sizeof(S));
            };
            const Range sources = depths.empty() ? Range{0, 0} : along.range(all);
            for (int64_t i = sources.first; i < sources.last;) {
                const Line& line = rooms.unit.lines[i - rooms.unit.line];
                zero_until(line.made.first);
                rooms.unit.places.set_weight(first_ - 1, line.weight);
                const S* from = rows ? source_at<S>(outer, depths.first, i, 0) : source_at<S>(outer, i, 0, 0);
                // Whole ones that follow each other, or a part of one.
                const int64_t size = line.made.size(), left = all.last - done, end = std::min(line.made.last, all.last);
                const int64_t whole = std::min({line.alike, left / size, most / size, readable(from, further)});
                const int64_t units = done == line.made.first ? whole : 0, some = units ? units * size : std::min(most, end - done);
                if (!units) from = at_end(rooms, from, further);
                S* to = writer.row(base + done * count, some * count);
                rooms.unit.places.lay(Block{from, to, count, units ? size : some, std::max<int64_t>(1, units), further});
                done += some, i += units ? units : done == end;
            }
            zero_until(all.last);
        }
    }

    const Side* const sides_[3] = {&depth_, &height_, &width_};
    int first_ = 3;                    // of a unit's axes; of none, 3
    int64_t joined_ = 1;               // planes of a unit
    int64_t unit_ = 1, lines_ = 0;     // elements of a unit and lines, at most
    bool stream_ = false;
};

}  // namespace poolgrad::POOLGRAD_ISA
