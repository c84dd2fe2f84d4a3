// Maxima where inner is short (channels first, one channel): down first, row over row, then along width, all rows of a block as one line where
// width is regular, else by picking terms. That is not the row-major order, so codes decide between equals. Without codes equals differ in
// their bits only where a -0.0 is among them; that and NaN, which beats everything, is left to others. Small windows stay in registers instead.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class V, class C, bool coded>
class Lines {
    using Sliding = SlidingMaxima<S, V, C, coded>;
    using Down = DownRows<S, V, C, coded>;
    using Room = MaxRoom<V, C, coded>;

  public:
    Lines(const MaxCall& call, const MaxSpace& space) : space_(space), sliding_(call, space), down_(call, space) {
        const Rule* rule = space.width.rule();
        const int64_t deep = space.depth.longest_window(), high = space.height.longest_window(), across = space.width.longest_window();
        // Rows shorter than a register would be taken element by element.
        usable_ = slides() || (!kPlain<S, V> && space.inner > 0 && space.width.input_size() * space.inner >= kLanes<V> && deep <= kRows &&
                               high <= kRows && across <= kRows &&
                               (rule ? space.inner < 16 && rule->stride <= 8 && rule->window <= kRows && rule->window <= rule->input_size
                                     : kWords<S, V> && space.inner == 1));
        if (!usable_) return;
        // Where windows of height may have something in common, some rows are made at once.
        const int64_t rows = rule && rule->window > rule->stride ? std::clamp<int64_t>(space.height.output_size(), 1, 8) : 1;
        const int64_t most = slides() ? kRoom / rows
                             : rule   ? (kRoom / space.inner - rule->window) / rule->stride
                                      : std::min(kRoom, fitting_tile(Side{&space.width, false}, kRoom));
        tile_ = std::clamp<int64_t>(most, 1, std::max<int64_t>(1, space.width.output_size()));
        if (slides()) return;
        const int64_t columns = rule ? (tile_ - 1) * rule->stride + rule->window : kRoom;
        down_.keep(std::min(columns, space.width.input_size()) * space.inner);
    }

    static constexpr int64_t kRoom = (16 << 10) / int64_t(sizeof(V));  // elements of a line
    static constexpr int64_t kBlock = coded ? kRoom / 4 : kRoom / 2;   // of short rows

    bool usable() const { return usable_; }
    bool slides() const { return sliding_.usable(); }
    int64_t tile() const { return tile_; }                  // the most outputs of a row
    bool keeps_rows() const { return down_.keeps_rows(); }  // which boxes cut along height would make twice

    struct Rooms {
        Rooms(const Lines& job, Arena& arena) {
            if (!job.usable_) return;
            if (job.slides()) {
                packed = Room::take(arena, kRoom + kLanes<V>);
                sliding = {packed, arena.take<Range>(kSlideHeights)};
                return;
            }
            const Rule* rule = job.space_.width.rule();
            size = kRoom + (rule ? (2 * rule->window + 4 * rule->stride) * job.space_.inner : Picks<V>::kSlack) + kLanes<V>;
            line = Room::take(arena, size), phases = Room::take(arena, rule && rule->stride > 1 ? size : 0);
            found = Room::take(arena, size), packed = Room::take(arena, size);
            down = typename Down::Rooms(job.down_, arena);
            if (job.by_parts()) firsts = arena.take<int32_t>(kRoom + kLanes<V>);
            if (!rule) picks = Picks<V>(arena, job.tile_), code_picks = Picks<C>(arena, coded ? job.tile_ : 0);
        }
        Room line, phases, found, packed;
        typename Sliding::Rooms sliding;
        typename Down::Rooms down;
        Picks<V> picks;  // of an irregular axis
        Picks<C> code_picks;
        int32_t* firsts = nullptr;                // where the windows of a block begin in the line, if they are taken in parts
        int64_t size = 0;                         // of each of them
        Range outputs{0, 0};                      // of width
        int64_t lead = 0, groups = 0, pitch = 0;  // of a row in a line: what lies before the columns, its outputs, its elements
        int64_t block = 0;                        // rows that are made at once
    };

    // For these outputs of width.
    void prepare(Rooms& rooms, Range outputs) const {
        if (rooms.outputs == outputs) return;
        rooms.outputs = outputs;
        if (slides()) {  // what they read stays in the first cache
            const int64_t each = space_.input_at(1, 0, 0, 0) / std::max<int64_t>(1, space_.output_at(1, 0, 0, 0)) * outputs.size();
            const int64_t most = kRoom / outputs.size();
            rooms.block = std::clamp<int64_t>(kRoom / std::max<int64_t>(1, each), std::min<int64_t>(8, most), most);
            return;
        }
        const Range columns = Side{&space_.width, false}.range(outputs);
        down_.prepare(rooms.down, columns);
        if (const Rule* rule = space_.width.rule()) {
            rooms.lead = columns.first - (outputs.first * rule->stride - rule->before);
            rooms.groups = outputs.size() + divide_up(std::max<int64_t>(0, rule->window - rule->stride), rule->stride);
            rooms.pitch = rooms.groups * rule->stride * space_.inner;
        } else {
            rooms.lead = 0, rooms.groups = outputs.size(), rooms.pitch = columns.size();
            const auto window = [&](int64_t i) { return space_.width.window(outputs.first + i).from(columns.first); };
            if constexpr (kWords<S, V>) rooms.picks.prepare(outputs.size(), 1, window);
            if constexpr (kWords<S, V> && coded) rooms.code_picks.prepare(outputs.size(), 1, window);
        }
        rooms.block = std::max<int64_t>(1, kBlock / std::max(rooms.pitch, rooms.groups * space_.inner));
        if (rooms.block > Shared::kCount) rooms.block = rooms.block / Shared::kCount * Shared::kCount;
        if (by_parts()) {
            const int64_t stride = space_.width.rule()->stride, made = rooms.block * outputs.size();
            for (int64_t w = 0; w < outputs.size(); ++w) rooms.firsts[w] = int32_t(w * stride);
            for (int64_t j = outputs.size(); j < made + kLanes<V>; ++j)
                rooms.firsts[j] = rooms.firsts[j - outputs.size()] + int32_t(j < made ? rooms.pitch : 0);
        }
        std::fill_n(rooms.line.values, rooms.size, kLowest<V>);
        if (coded) std::fill_n(rooms.line.codes, rooms.size, C(0));
    }

    // The maxima of some rows of outputs, at most rooms.block, one after the other in rooms.packed; false if they need the careful way.
    // Several depths, or planes, only of windows that slide.
    bool find(Rooms& rooms, Range outers, Range depths, Range heights, Range outputs) const {
        if constexpr (Sliding::kCompiled)
            if (slides()) {
                const bool found = sliding_.find(rooms.sliding, outers, depths, heights, outputs);
                mend_codes(rooms, outers.size() * depths.size() * heights.size(), outputs);
                return found;
            }
        const int64_t inner = space_.inner;
        if (!down_.find(rooms.down, outers.first, depths.first, heights, rooms.line.at(rooms.lead * inner), rooms.pitch)) return false;
        if constexpr (kWords<S, V>)
            if (!space_.width.rule()) return pick(rooms, heights.size(), outputs.size()), true;
        if constexpr (kWords<S, V>)
            if (by_parts()) {
                with_columns(space_.width.rule()->window, [&](auto columns) { parts<columns()>(rooms, heights.size() * outputs.size()); });
                mend_codes(rooms, heights.size(), outputs);
                return true;
            }
        const int64_t count = heights.size() * rooms.groups, row = outputs.size() * inner;
        const bool apart = rooms.groups != outputs.size();
        across(rooms, count, apart ? rooms.found : rooms.packed);
        for (int64_t i = 0; apart && i < heights.size(); ++i) {
            const auto from = rooms.found.at(i * rooms.groups * inner), to = rooms.packed.at(i * row);
            // The last register may go beyond the row: what follows is written later.
            for (int64_t at = 0; at < row; at += kLanes<V>) {
                store<V, kLanes<V>>(to.values + at, load<V, kLanes<V>>(from.values + at));
                if constexpr (coded) store<C, kLanes<C>>(to.codes + at, load<C, kLanes<C>>(from.codes + at));
            }
        }
        mend_codes(rooms, heights.size(), outputs);
        return true;
    }

  private:
    static constexpr int64_t kRows = Down::kRows;  // that are folded at once

    // Codes count from the clipped start. What is around the row wins only over equals: then the first true element does.
    void mend_codes(const Rooms& rooms, int64_t rows, Range outputs) const {
        if constexpr (coded) {
            const Rule& rule = *space_.width.rule();
            const int64_t inner = space_.inner, row = outputs.size() * inner;
            for (int64_t w = outputs.first; w < outputs.last && w * rule.stride < rule.before; ++w) {
                const C clipped = C(uint64_t(rule.before - w * rule.stride) * space_.step[2]);
                for (int64_t i = 0; i < rows; ++i)
                    for (C* code = rooms.packed.codes + i * row + (w - outputs.first) * inner, *end = code + inner; code < end; ++code)
                        *code = *code > clipped ? C(*code - clipped) : C(0);
            }
        }
    }

    // Whether windows are taken in parts: whatever the stride, which dealing out what lies in a line depends on.
    bool by_parts() const {
        const Rule* rule = space_.width.rule();
        return kWords<S, V> && rule && space_.inner == 1 && rule->stride >= 2 && rule->window >= 2 && rule->window <= kPartColumns;
    }
    // The same along width, `count` outputs of some rows, a register of windows at a time.
    template <int columns>
    POOLGRAD_NOINLINE void parts(const Rooms& rooms, int64_t count) const {
        constexpr int lanes = kLanes<V>;
        const int32_t* const firsts = rooms.firsts;
        const C step = C(space_.step[2]);
        for (int64_t at = 0; at < count; at += lanes) {  // the last register may go beyond what is wanted
            Vector<V, lanes> best{};
            Vector<C, lanes> code{};
            const auto fold = [&](auto c, auto x, auto... codes) POOLGRAD_LAMBDA {
                if constexpr (!coded) {
                    best = c() ? larger<V, lanes>(x, best) : x;
                } else {
                    const Vector<C, lanes> other = (codes + ...) + spread<C, lanes>(C(c() * step));
                    const Mask<V, lanes> mask = (x > best) | ((x == best) & (other < code));
                    code = c() ? select<C, lanes>(mask, other, code) : other;
                    best = c() ? select<V, lanes>(mask, x, best) : x;  // of equals the first, also of -0 and 0
                }
            };
            if constexpr (coded)
                each_part_column<columns>(fold, firsts + at, rooms.line.values, rooms.line.codes);
            else
                each_part_column<columns>(fold, firsts + at, rooms.line.values);
            store<V, lanes>(rooms.packed.values + at, best);
            if constexpr (coded) store<C, lanes>(rooms.packed.codes + at, code);
        }
    }

    // Along width, `count` outputs of the line.
    void across(const Rooms& rooms, int64_t count, Room to) const {
        const Rule& rule = *space_.width.rule();
        const int64_t inner = space_.inner;
        if (rule.stride == 1 && rule.window >= 5) return by_tripling(rooms, count * inner, to);
        Room starts[8] = {rooms.line};
        Room phase = rooms.phases;
        for (int64_t r = 0; rule.stride > 1 && r < std::min(rule.stride, rule.window); ++r) {
            const int64_t length = count + (rule.window - 1 - r) / rule.stride;
            take_strided(phase.values, rooms.line.values + r * inner, length, rule.stride, inner);
            if constexpr (coded) take_strided(phase.codes, rooms.line.codes + r * inner, length, rule.stride, inner);
            starts[r] = phase;
            phase = phase.at(length * inner);
        }
        BestRow<V, C> rows[kRows];
        for (int64_t t = 0; t < rule.window; ++t) {
            const Room from = starts[t % rule.stride].at(t / rule.stride * inner);
            rows[t] = {from.values, from.codes, C(uint64_t(t) * space_.step[2])};
        }
        first_of_best<coded>(rows, rule.window, count * inner, to.values, to.codes);
    }

    // The same for stride 1: windows of 3, 9, 27, ... elements from three of the size before, which overlap in the last. `to` is not
    // rooms.packed, where the windows are kept.
    void by_tripling(const Rooms& rooms, int64_t length, Room to) const {
        const int64_t inner = space_.inner, window = space_.width.rule()->window;
        // In place only whole registers: none is made twice. Each pass leaves off what it could not read whole.
        const auto whole = [](int64_t count) { return divide_up(count, kLanes<V>) * kLanes<V>; };
        Room from = rooms.line;
        for (int64_t size = 1, next; size < window; size = next, from = rooms.packed) {
            next = std::min(3 * size, window);
            const int64_t shifts[3] = {0, next > 2 * size ? size : next - size, next - size};
            BestRow<V, C> rows[3];
            for (int i = 0; i < 3; ++i) {
                const Room other = from.at(shifts[i] * inner);
                rows[i] = {other.values, other.codes, C(uint64_t(shifts[i]) * space_.step[2])};
            }
            const bool last = next == window;
            const Room into = last ? to : rooms.packed;
            first_of_best<coded>(rows, next > 2 * size ? 3 : 2, last ? length : whole(length + (window - next) * inner), into.values, into.codes);
        }
    }

    // The same of an irregular axis, row by row.
    POOLGRAD_NOINLINE void pick(const Rooms& rooms, int64_t rows, int64_t outputs) const {
        constexpr int lanes = kLanes<V>;
        rooms.picks.visit([&](auto how) POOLGRAD_LAMBDA {
            for (int64_t row = 0; row < rows; ++row) {
                const Room from = rooms.line.at(row * rooms.pitch), to = rooms.packed.at(row * outputs);
                // The last register may go beyond the row: what follows is written later.
                for (int64_t at = 0; at < outputs; at += lanes) {
                    const typename Picks<V>::template Terms<decltype(how)::value> terms(rooms.picks, from.values, at);
                    auto best = terms.term(0);
                    if constexpr (coded) {
                        const typename Picks<C>::template Terms<decltype(how)::value> codes(rooms.code_picks, from.codes, at);
                        auto code = codes.term(0);
                        for (int32_t t = 1; t < rooms.picks.longest(); ++t) {
                            const auto x = terms.term(t);
                            const Vector<C, lanes> other = codes.term(t) + spread<C, lanes>(C(uint64_t(t) * space_.step[2]));
                            const Mask<V, lanes> mask = ((x > best) | ((x == best) & (other < code))) & terms.has(t);
                            code = select<C, lanes>(mask, other, code), best = select<V, lanes>(mask, x, best);
                        }
                        store<C, lanes>(to.codes + at, code);
                    } else {
                        for (int32_t t = 1; t < rooms.picks.longest(); ++t)
                            best = larger<V, lanes>(select<V, lanes>(terms.has(t), terms.term(t), best), best);
                    }
                    store<V, lanes>(to.values + at, best);
                }
            }
        });
    }

    const MaxSpace& space_;
    const Sliding sliding_;
    Down down_;
    bool usable_;
    int64_t tile_ = 1;
};

}  // namespace poolgrad::POOLGRAD_ISA
