// Gradients of averages with strides above 1, inner 1: the rows that reach a row of inputs are summed down, a register at a time, and the terms of
// a register of inputs picked from that one. Nothing but the results goes through memory.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class A>
class PickedCovers : Sides {
    static constexpr int lanes = kLanes<A>, words = int(sizeof(A) / 4);
    using Cell = Vector<A, lanes>;

  public:
    explicit PickedCovers(const AverageCall& call) : Sides(call, true) {}

    bool usable() const {
        if (kVectorBytes != 32 || inner_ != 1 || !width_.axis->rule() || rule_.stride < 2 || width_.longest() > kTerms) return false;
        for (const Side& side : {depth_, height_, width_})
            if (side.sources() == 0 || side.destinations() == 0) return false;
        // Of few rows the tables are not worth it. Shorter ones are faster turned.
        if (double(call_.layout.outer) * double(depth_.destinations()) * double(height_.destinations()) < kLeast) return false;
        if (width_.destinations() > kColumns || width_.destinations() < (rule_.window == 3 && rule_.stride == 2 ? 6 : 3) * lanes) return false;
        // All terms of a register's inputs must lie within one.
        if ((lanes - 1 + rule_.window) / rule_.stride + 1 > lanes) return false;
        return depth_.longest() * height_.longest() <= kRows;
    }

    void run(int64_t traffic) {
        stream_ = is_streamed(traffic);
        Tiling tiling{destinations(), {1, depth_.destinations(), std::min(height_.destinations(), kHeights), width_.destinations(), 1}};
        if (!depth_.axis->is_identity()) tiling.tile[2] = std::min(tiling.tile[2], cached_heights(width_.sources() * int64_t(sizeof(S))));
        balance(tiling, call_.workers, divide_up(traffic, tiling.elements()));
        tiling.tile[3] = tiling.extent[3];  // is not cut
        const bool common = tiling.extent[2] <= kHeights;
        heights_ = common ? tiling.extent[2] : tiling.tile[2];
        const Rooms measure(*this, nullptr);
        const Scratch for_all(common ? measure.arena.used() : 0);
        std::optional<Rooms> prepared;
        if (common) prepare(prepared.emplace(*this, for_all.data()), tiling.whole());
        run_boxes(tiling, call_.workers, traffic, measure.arena.used(), [&](const Box& box, std::byte* scratch) {
            Rooms rooms(*this, scratch);
            Writer<S> writer(static_cast<S*>(call_.destination), rooms.staging, staging_size());
            if (!prepared) prepare(rooms, box);
            const Tables& tables = prepared ? prepared->tables : rooms.tables;
            for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
                for (int64_t d = box.depth.first; d < box.depth.last; ++d) plane(tables, writer, box, outer, d);
            writer.finish();
        });
    }

  private:
    static constexpr int64_t kTerms = 4, kRows = 16;             // of an input along width, and along the others
    static constexpr int64_t kHeights = 1024;                    // of a box
    static constexpr int64_t kColumns = 2048, kLeast = 64;       // of rows, and the fewest rows

    int64_t staging_size() const { return 2 * kColumns + 512 / int64_t(sizeof(S)); }

    // Rows of inputs that the same outputs reach.
    struct Line {
        Range made, ys;
    };
    // What is the same in all boxes, unless planes are cut.
    struct Tables {
        int32_t *index, *counts;  // of the first term of each input, in words, and how many it has
        int32_t* least;           // output of a register's terms
        A *width, *height;        // weights
        Line* lines;
        const S* limit;   // from there on less than a row and a register are left of the source,
        S* tail;          // which are here
        int64_t count, first_row;  // of the lines; of the source
        bool gaps;
    };
    struct Rooms {
        Rooms(const PickedCovers& job, std::byte* base) : arena(base) {
            const int64_t columns = job.width_.destinations();
            tables.index = arena.take<int32_t>(columns * words), tables.counts = arena.take<int32_t>(columns * words);
            tables.least = arena.take<int32_t>(columns);
            tables.width = arena.take<A>(job.width_.sources() + 2 * lanes), tables.height = arena.take<A>(std::min(job.height_.sources(), job.heights_ * kRows));
            tables.lines = arena.take<Line>(job.heights_);
            tables.tail = arena.take<S>(job.tail_size() + 2 * lanes);
            if (job.stream_) staging = arena.take<S>(job.staging_size());
        }
        Arena arena;
        Tables tables{};
        S* staging = nullptr;
    };
    int64_t sources() const { return call_.layout.outer * depth_.sources() * height_.sources() * width_.sources(); }
    int64_t tail_size() const { return std::min(sources(), width_.sources() + 2 * lanes); }

    void prepare(Rooms& rooms, const Box& box) const {
        Tables& tables = rooms.tables;
        const Range rows = height_.range(box.height);
        const int64_t columns = width_.sources();
        std::fill_n(tables.width, columns + 2 * lanes, A(0));
        fill_weights<A>(width_, 0, columns, tables.width), fill_weights<A>(height_, rows.first, rows.size(), tables.height);
        tables.first_row = rows.first, tables.gaps = false, tables.count = 0;
        for (int64_t i = 0; i < width_.destinations(); ++i) {
            const Range terms = width_.range(i);
            tables.least[i] = int32_t(std::min(std::max<int64_t>(terms.first, 0), std::max<int64_t>(columns - lanes, 0)));
            tables.gaps = tables.gaps || terms.empty();
            for (int word = 0; word < words; ++word) {
                tables.index[i * words + word] = int32_t(terms.first) * words + word;
                tables.counts[i * words + word] = int32_t(terms.empty() ? 0 : terms.size());
            }
        }
        for (int64_t h = box.height.first; h < box.height.last; ++h) {
            const Range ys = height_.range(h);
            if (tables.count && tables.lines[tables.count - 1].ys == ys)
                tables.lines[tables.count - 1].made.last = h + 1;
            else
                tables.lines[tables.count++] = {{h, h + 1}, ys};
        }
        tables.limit = static_cast<const S*>(call_.source) + sources() - tail_size();
        std::memcpy(tables.tail, tables.limit, std::size_t(tail_size()) * sizeof(S));
    }

    // The rows that make a line, and where it goes.
    template <int64_t most>
    struct Terms {
        const S* from[most];
        A height_weights[most], depth_weights[most];
    };
    struct Block : Terms<kRows> {
        S* to;
        int64_t count, rows;
    };
    void plane(const Tables& tables, Writer<S>& writer, const Box& box, int64_t outer, int64_t d) const {
        const Range zs = depth_.range(d);
        const int64_t count = width_.destinations(), most = stream_ ? std::max<int64_t>(1, kColumns / count) : INT64_MAX;
        const int64_t plane_pitch = height_.sources() * width_.sources();
        const S* const first = source_at<S>(outer, zs.empty() ? 0 : zs.first, 0, 0);
        const int64_t base = destination_at(outer, d, 0, 0);
        Block block;
        block.count = count;
        fill_weights<A>(depth_, zs.first, zs.empty() ? 0 : zs.size(), block.depth_weights);
        const Line* line = std::upper_bound(tables.lines, tables.lines + tables.count, box.height.first,
                                            [](int64_t h, const Line& each) { return h < each.made.last; });
        for (int64_t done = box.height.first; done < box.height.last; ++line) {
            const Range ys = line->ys;
            const bool nothing = zs.empty() || ys.empty();
            for (int64_t y = ys.first, i = 0; y < ys.last && !nothing; ++y) {
                block.height_weights[y - ys.first] = tables.height[y - tables.first_row];
                for (int64_t z = 0; z < zs.size(); ++z, ++i) {
                    const S* from = first + z * plane_pitch + y * width_.sources();
                    block.from[i] = from < tables.limit ? from : tables.tail + (from - tables.limit);
                }
            }
            for (const int64_t end = std::min(line->made.last, box.height.last); done < end; done += block.rows) {
                block.rows = std::min(most, end - done);
                block.to = writer.row(base + done * count, block.rows * count);
                if (nothing)
                    std::memset(block.to, 0, std::size_t(block.rows * count) * sizeof(S));
                else
                    lay(tables, block, zs.size(), ys.size());
            }
        }
    }
    void lay(const Tables& tables, const Block& block, int64_t planes, int64_t rows) const {
        const auto by_terms = [&](auto terms) POOLGRAD_LAMBDA {
            if (planes == 1 && rows == 1)
                lay_rows<terms()>(tables, block, Constant<1>(), Constant<1>());
            else if (planes == 1 && rows == 2)
                lay_rows<terms()>(tables, block, Constant<1>(), Constant<2>());
            else if (planes == 1 && rows == 3)
                lay_rows<terms()>(tables, block, Constant<1>(), Constant<3>());
            else
                lay_rows<terms()>(tables, block, int(planes), int(rows));
        };
        if (width_.longest() <= 2)
            by_terms(Constant<2>());
        else if (width_.longest() == 3)
            by_terms(Constant<3>());
        else
            by_terms(Constant<int(kTerms)>());
    }
    template <class Down, class Planes, class Rows>
    POOLGRAD_INLINE static Cell down(const Down& block, int64_t x, Planes planes, Rows rows) {
        auto total = spread<A, lanes>(A(-0.0));
        for (int y = 0; y < rows; ++y) {
            auto sum = spread<A, lanes>(A(-0.0));
            for (int z = 0; z < planes; ++z) sum = sum + load<A, lanes>(block.from[y * planes + z] + x) * block.depth_weights[z];
            total = total + sum * block.height_weights[y];
        }
        return total;
    }
    template <int terms, class Planes, class Rows>
    POOLGRAD_NOINLINE static void lay_rows(const Tables& tables, const Block& block, Planes planes, Rows rows) {
#ifdef POOLGRAD_AVX2
        // Some are kept where they are seen not to change.
        constexpr bool few = !std::is_same_v<Rows, int>;
        Terms<few ? 3 : kRows> kept;
        for (int i = 0; few && i < planes * rows; ++i) kept.from[i] = block.from[i];
        for (int i = 0; few && i < rows; ++i) kept.height_weights[i] = block.height_weights[i];
        for (int i = 0; few && i < planes; ++i) kept.depth_weights[i] = block.depth_weights[i];
        const auto down_at = [&](int64_t x) POOLGRAD_LAMBDA {
            if constexpr (few)
                return down(kept, x, planes, rows);
            else
                return down(block, x, planes, rows);
        };
        const int32_t *index = tables.index, *counts = tables.counts, *least = tables.least;
        const A* width = tables.width;
        const bool gaps = tables.gaps;
        const int64_t last = block.count - lanes;
        for (int64_t next = 0; next < last + lanes; next += lanes) {
            const int64_t at = std::min(next, last), base = least[at];
            const Cell total = down_at(base) * load<A, lanes>(width + base);
            const __m256i first = _mm256_sub_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(index + at * words)),
                                                   _mm256_set1_epi32(int(base) * words));
            const __m256i count = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(counts + at * words));
            const auto term = [&](int t) POOLGRAD_LAMBDA {
                const __m256i offset = _mm256_add_epi32(first, _mm256_set1_epi32(t * words));
                return bit_copy<Cell>(_mm256_permutevar8x32_epi32(bit_copy<__m256i>(total), offset));
            };
            const auto has = [&](int t) POOLGRAD_LAMBDA { return bit_copy<Mask<A, lanes>>(_mm256_cmpgt_epi32(count, _mm256_set1_epi32(t))); };
            Cell sum = term(0);
            for (int t = 1; t < terms; ++t) sum = sum + select<A, lanes>(has(t), term(t), spread<A, lanes>(A(-0.0)));
            if (gaps) sum = select<A, lanes>(has(0), sum, spread<A, lanes>(A(0)));
            S* to = block.to + at;
            for (int64_t row = 0; row < block.rows; ++row, to += block.count) store<A, lanes>(to, sum);
        }
#else
        (void)tables, (void)block, (void)planes, (void)rows;
#endif
    }

    int64_t heights_ = 1;  // of a box, at most
    bool stream_ = false;
};

}  // namespace poolgrad::POOLGRAD_ISA
