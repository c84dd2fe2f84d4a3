// Maxima of small regular windows where inner is 1, whole in registers (slide.h): first along width, then along height and depth, as the
// row-major order is. NaN, which beats everything, is left to others.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class V, class C, bool coded>
class SlidingMaxima {
    static constexpr int lanes = kLanes<V>;
    using Cell = std::conditional_t<coded, Coded<V, C>, Vector<V, lanes>>;  // maxima of a register of windows
    using There = Mask<V, lanes>;                                           // which lanes of a load belong to the row

  public:
    static constexpr bool kCompiled = is_float<S> ? !kPlain<S, V> : std::is_same_v<S, V>;

    SlidingMaxima(const MaxCall& call, const MaxSpace& space) : call_(call), space_(space), sign_(call, Type<S>()) {
        const Rule* rule = space.width.rule();
        usable_ = kCompiled && rule && space.inner == 1 && 2 * rule->output_size >= lanes && is_small_window(rule->stride, rule->window) &&
                  space.depth.longest_window() * space.height.longest_window() <= kSlideRows;
    }
    bool usable() const { return usable_; }

    struct Rooms {
        MaxRoom<V, C, coded> packed;              // for what is found
        Range *windows = nullptr, heights{0, 0};  // those of height that were asked for last
    };

    // The maxima of these outputs, one after the other; false if they need the careful way. Codes count from where a window would begin if
    // its row were not clipped.
    bool find(Rooms& rooms, Range outers, Range depths, Range heights, Range outputs) const {
        const Rule& rule = *space_.width.rule();
        bool whole = false;
        if (!(rooms.heights == heights))
            for (int64_t h = heights.first; h < heights.last; ++h) rooms.windows[h - heights.first] = space_.height.window(h);
        rooms.heights = heights;
        with_small_window(rule.stride, rule.window, [&](auto stride, auto window) {
            whole = slide_rows<decltype(stride)::value, decltype(window)::value>(rooms, outers, depths, heights, outputs);
        });
        return whole;
    }

  private:
    template <class Given>
    POOLGRAD_INLINE static auto& values_of(Given& cell) {
        if constexpr (coded)
            return cell.values;
        else
            return cell;
    }

    // How rows are read: some of their lanes may lie beside the row, or even outside the array.
    using Whole = Constant<0>;
    using Clipped = Constant<1>;
    using Outside = Constant<2>;

    // Registers of windows side by side.
    template <int stride, int window>
    struct Slide {
        static constexpr int overlap = std::max(0, window - stride), reach = stride * lanes + overlap;
        static constexpr int loads = stride == 1 ? window : overlap ? 2 * stride : stride;

        Slide(const SlidingMaxima& job, const Rooms& rooms)
            : array(static_cast<const S*>(job.call_.source)), elements(job.space_.inputs()), wide(job.space_.width.input_size()),
              plane(job.space_.height.input_size() * wide), sign(job.sign_), step_depth(C(job.space_.step[0])), step_height(C(job.space_.step[1])),
              step_width(C(job.space_.step[2])), packed(rooms.packed) {}

        // The maxima of a register of windows in the row from this index on; there[i] tells which lanes of the i-th load belong to it.
        template <class How>
        POOLGRAD_INLINE Cell row(Odd<V>& noted, How how, int64_t index, const There* there = nullptr) const {
            const auto read = [&](int which, int at) POOLGRAD_LAMBDA {
                Vector<V, lanes> x;
                if constexpr (how() == Outside())
                    x = load_clipped<V>(array, elements, index + at);
                else
                    x = load<V, lanes>(array + index + at);
                x = sign.template turn<lanes>(x);
                return how() == Whole() ? x : select<V, lanes>(there[which], x, spread<V, lanes>(kLowest<V>));
            };
            const auto note = [&](auto x, auto y) POOLGRAD_LAMBDA {
                if constexpr (std::is_floating_point_v<V>) noted.template note<lanes>(unordered<V, lanes>(x, y));
            };
            const auto join = [&](Cell& best, Vector<V, lanes> x, int t) POOLGRAD_LAMBDA {
                if constexpr (coded) best.codes = select<C, lanes>(x > best.values, spread<C, lanes>(C(C(t) * step_width)), best.codes);
                values_of(best) = larger<V, lanes>(x, values_of(best));
            };
            Cell best{};
            with_terms<stride, window, lanes>(read, note, [&](auto first, auto... others) POOLGRAD_LAMBDA {
                values_of(best) = first;
                int t = 0;
                (join(best, others, ++t), ...);
            });
            return best;
        }
        POOLGRAD_INLINE Cell down(const Cell& best, const Cell& x, C add) const {
            if constexpr (coded)
                return Cell{larger<V, lanes>(x.values, best.values),
                            select<C, lanes>(x.values > best.values, x.codes + spread<C, lanes>(add), best.codes)};
            else
                return larger<V, lanes>(x, best);
        }
        // Of some rows and planes, as many as the compiler knows or not.
        template <class How, class Rows, class Planes>
        POOLGRAD_INLINE Cell window_of(Odd<V>& noted, How how, int64_t first, Rows rows, Planes planes, const There* there = nullptr) const {
            Cell best = row(noted, how, first, there);
            for (int64_t y = 1; y < rows; ++y) best = down(best, row(noted, how, first + y * wide, there), C(C(y) * step_height));
            for (int64_t z = 1; z < planes; ++z)
                for (int64_t y = 0; y < rows; ++y)
                    best = down(best, row(noted, how, first + z * plane + y * wide, there), C(C(z) * step_depth + C(y) * step_height));
            return best;
        }
        POOLGRAD_INLINE void put(int64_t at, const Cell& best) const {  // what goes beyond the row is written later
            store<V, lanes>(packed.values + at, in_order<stride>(values_of(best)));
            if constexpr (coded) store<C, lanes>(packed.codes + at, in_order<stride>(best.codes));
        }

        const S* array;
        int64_t elements, wide, plane;
        Turn<V> sign;
        C step_depth, step_height, step_width;
        MaxRoom<V, C, coded> packed;
    };

    // One row of windows in the order of memory: registers of them that all lie in the row, from the window starts.first on, the last one at
    // starts.last. Window 0 begins at the index `first`, and its maximum goes to `to`. `far`: rows come from memory.
    template <int stride, int window, class Rows, class Planes>
    POOLGRAD_INLINE static void slide_along(const Slide<stride, window>& slide, Odd<V>& odd, bool far, int64_t first, Range starts, int64_t to,
                                            Rows rows, Planes planes) {
        Odd<V> noted;
        const auto put = [&](int64_t at) POOLGRAD_LAMBDA {
            slide.put(to + at, slide.window_of(noted, Whole(), first + at * stride, rows, planes));
        };
        if (far)
            for (int64_t at = starts.first; at < starts.last; at += lanes) {
                const S* place = slide.array + first + at * stride;
                for (int64_t z = 0; z < planes; ++z)
                    for (int64_t y = Slide<stride, window>::overlap; y < rows; ++y)
                        fetch_next_page(place + z * slide.plane + y * slide.wide, stride * lanes);
                put(at);
            }
        else
            for (int64_t at = starts.first; at < starts.last; at += lanes) put(at);
        put(starts.last);
        odd.join(noted);
    }
    // All rows so, while those of the source that lie `ahead` of a window's last are fetched.
    template <int stride, int window>
    POOLGRAD_NOINLINE void slide_all_along(const Rooms& rooms, Odd<V>& all, Range outers, Range depths, Range heights, int64_t start, Range starts,
                                           int64_t count, Range ahead) const {
        const Slide<stride, window> slide(*this, rooms);
        Odd<V> odd;
        int64_t to = 0;
        const int64_t wide = slide.wide, plane = slide.plane, reads = (count - 1) * stride + window;
        const bool far = is_far(space_.inputs() * int64_t(sizeof(S))), long_rows = wide * int64_t(sizeof(S)) >= kLongRowBytes;
        constexpr int64_t overlap = Slide<stride, window>::overlap;
        for (int64_t outer = outers.first; outer < outers.last; ++outer)
            for (int64_t d = depths.first; d < depths.last; ++d) {
                const Range depth = space_.depth.window(d);
                const int64_t origin = space_.input_at(outer, depth.first, 0, start), planes = depth.size();
                for (int64_t h = 0; h < heights.size(); ++h, to += count) {
                    const Range height = rooms.windows[h];
                    const int64_t first = origin + height.first * wide, rows = height.size();
                    for (int64_t z = 0; z < planes; ++z) {
                        const S* row = slide.array + first + z * plane;
                        if (far && !long_rows) fetch_later(row + overlap * wide, (rows - overlap) * wide);
                        for (int64_t y = rows + ahead.first; y < rows + ahead.last; ++y) fetch(row + y * wide, reads);
                    }
                    if (rows == window && planes == 1)
                        slide_along(slide, odd, far && long_rows, first, starts, to, Constant<window>(), Constant<1>());
                    else if (window == 2 && rows == 2 && planes == 2)
                        slide_along(slide, odd, far && long_rows, first, starts, to, Constant<window>(), Constant<window>());
                    else
                        slide_along(slide, odd, far && long_rows, first, starts, to, rows, planes);
                }
            }
        all.join(odd);
    }
    // What windows along height have in common stays in registers where these are taken down all rows.
    template <int stride, int window>
    POOLGRAD_NOINLINE bool slide_rows(Rooms& rooms, Range outers, Range depths, Range heights, Range outputs) const {
        using Sliding = Slide<stride, window>;
        constexpr int overlap = Sliding::overlap, reach = Sliding::reach, loads = Sliding::loads;
        const Sliding slide(*this, rooms);
        const int64_t wide = slide.wide, plane = slide.plane, last = slide.elements - reach;
        const int64_t rows = outers.size() * depths.size() * heights.size(), count = outputs.size();
        // Registers of few rows, and of rows of some registers that have little in common, are taken in the order of memory, others down all
        // rows. Then about as much as the rows have is read until the next ones are.
        const bool along = count > lanes && (heights.size() < 4 || (stride > 1 && count >= 3 * lanes));
        const int64_t all_rows = space_.depth.output_size() * space_.height.output_size();
        const int64_t row_bytes = wide * int64_t(sizeof(S));
        const bool fetches = along && plane > wide && fetches_rows(row_bytes, stride);
        const int64_t next = along ? 1024 / int64_t(sizeof(S)) : rows * space_.input_at(1, 0, 0, 0) / all_rows;
        Odd<V> odd;  // of all; what is noted in a loop stays in a register there
        There there[loads]{};
        const auto row = [&](Odd<V>& noted, auto how, int64_t index) POOLGRAD_LAMBDA {
            __builtin_prefetch(slide.array + index + next);
            return slide.row(noted, how, index, there);
        };
        const auto strip = [&](auto how, auto flat, int64_t at, int64_t column) POOLGRAD_LAMBDA {
            int64_t to = at;
            Odd<V> noted;
            for (int64_t outer = outers.first; outer < outers.last; ++outer)
                for (int64_t d = depths.first; d < depths.last; ++d) {
                    const Range depth = space_.depth.window(d);
                    const int64_t origin = space_.input_at(outer, depth.first, 0, 0) + column, deep = flat() ? 1 : depth.size();
                    Cell kept[std::max(1, flat() ? overlap : overlap * int(kSlideRows / window))]{};
                    int64_t kept_from = -1;  // the first row that is kept
                    for (int64_t h = 0; h < heights.size(); ++h, to += count) {
                        const Range height = rooms.windows[h];
                        const int64_t first = origin + height.first * wide;
                        if (height.size() != window) {
                            slide.put(to, slide.window_of(noted, how, first, height.size(), depth.size(), there));
                            continue;
                        }
                        if (overlap && kept_from != height.first)
                            for (int64_t z = 0; z < deep; ++z)
                                for (int y = 0; y < overlap; ++y) kept[z * overlap + y] = row(noted, how, first + z * plane + y * wide);
                        kept_from = height.first + stride;
                        Cell best{};
                        for (int64_t z = 0; z < deep; ++z) {
                            Cell* const common = kept + z * overlap;
                            const auto cell = [&](auto y) POOLGRAD_LAMBDA {
                                if constexpr (y() < overlap)
                                    return common[y()];
                                else
                                    return row(noted, how, first + z * plane + y() * wide);
                            };
                            with_constants<window>([&](auto... y) POOLGRAD_LAMBDA {
                                const Cell cells[window] = {cell(y)...};
                                for (int i = 0; i < overlap; ++i) common[i] = cells[stride + i];
                                ((best = y() || z ? slide.down(best, cells[y()], C(C(z) * slide.step_depth + C(y()) * slide.step_height))
                                                  : cells[0]), ...);
                            });
                        }
                        slide.put(to, best);
                    }
                }
            odd.join(noted);
        };
        // The last register overlaps the one before.
        const int64_t start = outputs.first * stride - space_.width.rule()->before;
        const int64_t top = space_.input_at(outers.first, space_.depth.window(depths.first).first, rooms.windows[0].first, start);
        const int64_t bottom = space_.input_at(outers.last - 1, space_.depth.window(depths.last - 1).last - 1,
                                               rooms.windows[heights.size() - 1].last - 1, start);
        const auto way = [&](int64_t at) {
            const int64_t column = start + at * stride;
            if (top + at * stride < 0 || bottom + at * stride > last) return 2;
            return column < 0 || column + (std::min<int64_t>(lanes, count) - 1) * stride + window > wide ? 1 : 0;
        };
        const bool flat = space_.depth.longest_window() == 1;
        int64_t whole_first = 0, whole_last = along ? count - lanes + 1 : 0;  // of where such registers begin
        while (whole_first < whole_last && way(whole_first) != Whole()) ++whole_first;
        while (whole_first < whole_last && way(whole_last - 1) != Whole()) --whole_last;
        // Rows of windows that overlap are asked for twice: so much is done until they are read that they may be lost again.
        const Range ahead = !fetches ? Range{0, 0} : overlap ? Range{0, std::max(4, 2 * stride)} : Range{2 * stride, 3 * stride};
        if (whole_first < whole_last)
            slide_all_along<stride, window>(rooms, odd, outers, depths, heights, start, {whole_first, whole_last - 1}, count, ahead);
        for (int64_t done = 0; done < count; done += lanes) {
            const int64_t at = std::max<int64_t>(0, std::min(done, count - lanes)), column = start + at * stride;
            const int how = way(at);
            if (how == Whole()) {
                if (!along) flat ? strip(Whole(), std::true_type(), at, column) : strip(Whole(), std::false_type(), at, column);
                continue;
            }
            for (int i = 0; i < loads; ++i)
                for (int64_t lane = 0; lane < lanes; ++lane) {
                    const int64_t x = column + lane + (i < stride ? i * lanes : stride == 1 ? i : (i - stride) * lanes + 1);
                    there[i][lane] = x >= 0 && x < wide ? -1 : 0;
                }
            if (how == Outside())
                strip(Outside(), std::false_type(), at, column);
            else
                flat ? strip(Clipped(), std::true_type(), at, column) : strip(Clipped(), std::false_type(), at, column);
        }
        return !odd.seen();
    }

    const MaxCall& call_;
    const MaxSpace& space_;
    const Turn<V> sign_;
    bool usable_;
};

}  // namespace poolgrad::POOLGRAD_ISA
