// Gradients of maxima whose windows do not overlap: an element is a sum of one term, 0 + gradient, or 0. Of inner runs of 1 and windows as
// long as their stride of 2 or 4, what goes to each place of a window is zipped.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Lanes as large as what is stored: enough for sums of one term.
template <class S>
using LoneSum = std::conditional_t<is_small_float<S>, uint16_t, Accumulator<S>>;
template <class S>
using LoneCode = std::make_unsigned_t<typename BitsOf<sizeof(LoneSum<S>)>::type>;

// 0 + grad, of which floats of 16 bits lose their sign where they are 0, and become quiet where they are NaN.
template <class S, int lanes>
POOLGRAD_INLINE Vector<LoneSum<S>, lanes> lone(const S* grad) {
    if constexpr (is_small_float<S>) {
        constexpr int16_t infinity = std::is_same_v<S, Half> ? 0x7C00 : 0x7F80, quiet = std::is_same_v<S, Half> ? 0x200 : 0x40;
        using Bits = Vector<int16_t, lanes>;
        const auto bits = load<int16_t, lanes>(reinterpret_cast<const int16_t*>(grad));
        const Bits magnitude = Bits(bits & spread<int16_t, lanes>(0x7FFF)), none = spread<int16_t, lanes>(0);
        const Bits quieted = Bits(bits | spread<int16_t, lanes>(quiet));
        const Bits sum = select<int16_t, lanes>(magnitude > spread<int16_t, lanes>(infinity), quieted, bits);
        return bit_copy<Vector<LoneSum<S>, lanes>>(select<int16_t, lanes>(magnitude == none, none, sum));
    } else {
        return spread<LoneSum<S>, lanes>(0) + load<LoneSum<S>, lanes>(grad);
    }
}
template <class S, int lanes, class C>
POOLGRAD_INLINE Vector<LoneSum<S>, lanes> lone_if(Vector<LoneCode<S>, lanes> codes, C code, Vector<LoneSum<S>, lanes> grad) {
    return select<LoneSum<S>, lanes>(codes == spread<LoneCode<S>, lanes>(LoneCode<S>(code)), grad, spread<LoneSum<S>, lanes>(0));
}

template <class S, class V, class C>
class MaxZip {
    using Winners = WinnerRows<S, V, C>;
    using Own = LoneSum<S>;
    static constexpr int64_t kCheckedCodes = 4096;  // of rows that are checked at once

  public:
    MaxZip(Winners& winners, const MaxBoxes& boxes) : winners_(winners), call_(winners.call()), space_(winners.space()), boxes_(boxes) {}

    struct Rooms : Winners::Rooms {
        Rooms(const MaxZip& job, Arena& arena) : Winners::Rooms(job.winners_, arena, job.boxes_, job.boxes_.reached, false) {
            if (job.boxes_.stream) staging = arena.take<S>(job.staging());
        }
        S* staging = nullptr;
    };

    void compute(Rooms& rooms, const Box& box) const {
        const Box outputs = winners_.outputs_of(box);
        winners_.prepare(rooms, outputs.width);
        Writer<S> writer(static_cast<S*>(call_.destination), rooms.staging, staging());
        winners_.each_plane(rooms, box.outer, outputs, [&](int64_t outer, const CodeView& codes) {
            zip_rows(rooms, writer, box, outer, outputs, codes);
        });
        writer.finish();
    }

  private:
    int64_t staging() const { return boxes_.tile[3] * boxes_.tile[4] + 512 / int64_t(sizeof(S)); }  // a row, and what does not fill a line

    void zip_rows(Rooms& rooms, Writer<S>& writer, const Box& box, int64_t outer, const Box& outputs, const CodeView& codes) const {
        const Rule& rule = *space_.width.rule();
        const Range columns = box.width, ws = outputs.width;
        // The windows [first, last) lie within the columns as a whole, and fill those of `within`.
        const int64_t first = divide_up(columns.first + rule.before, rule.stride);
        const int64_t last = std::min((columns.last + rule.before) / rule.stride, rule.output_size);
        Range within{first * rule.stride - rule.before, last * rule.stride - rule.before};
        if (last - first < kLanes<Own>) within = {columns.last, columns.last};
        const int64_t whole = winners_.codes_of_all();
        const int64_t last_height = outputs.height.last;
        int64_t depth = -1, checked = 0;  // those of this depth up to that height
        for (int64_t d = box.depth.first; d < box.depth.last; ++d) {
            const Range ds = space_.depth.cover(d);
            const int64_t z = ds.first, pitch = space_.input_at(0, 0, 1, 0);
            const auto base_depth = ds.empty() ? C(0) : C(uint64_t(d - space_.depth.window(z).first) * space_.step[0]);
            int64_t at = space_.input_at(outer, d, box.height.first, columns.first);
            for (int64_t h = box.height.first; h < box.height.last; ++h, at += pitch) {
                const Range hs = space_.height.cover(h);
                auto* to = reinterpret_cast<Own*>(writer.row(at, columns.size()));
                if (ds.empty() || hs.empty() || ws.empty()) {
                    std::memset(to, 0, std::size_t(columns.size()) * sizeof(S));
                    continue;
                }
                const int64_t y = hs.first;
                const uint8_t* row = static_cast<const uint8_t*>(codes.data) + codes.index(z, y, ws.first);
                const S* grads = static_cast<const S*>(call_.grad) + space_.output_at(outer, z, y, ws.first);
                const auto base = C(base_depth + C(uint64_t(h - space_.height.window(y).first) * space_.step[1]));
                if (!winners_.from_input() && (depth != z || y >= checked)) {
                    const int64_t most = std::max<int64_t>(1, kCheckedCodes / ws.size());
                    depth = z, checked = std::min(y + most, last_height);
                    if (codes.pitch_height != ws.size() || !all_among(row, (checked - y) * ws.size(), whole))
                        for (int64_t i = y; i < checked; ++i)
                            winners_.check(rooms, row + (i - y) * codes.pitch_height, 1, outer, z, i, ws, box.inner);
                }
                const auto one = [&](int64_t column) {
                    const Range cover = space_.width.cover(column);
                    Own sum = 0;
                    if (!cover.empty())
                        sum = lone_if<S, 1>(LoneCode<S>(row[cover.first - ws.first]), C(base + C(column - space_.width.window(cover.first).first)),
                                            lone<S, 1>(grads + cover.first - ws.first));
                    store<Own, 1>(to + column - columns.first, sum);
                };
                for (int64_t w = columns.first; w < within.first; ++w) one(w);
                for (int64_t w = within.last; w < columns.last; ++w) one(w);
                if (within.empty()) continue;
                if (rule.stride == 2)
                    zip_windows<2>(row + first - ws.first, grads + first - ws.first, base, last - first, to + within.first - columns.first);
                else
                    zip_windows<4>(row + first - ws.first, grads + first - ws.first, base, last - first, to + within.first - columns.first);
            }
        }
    }
    template <int stride>
    POOLGRAD_INLINE static void zip_windows(const uint8_t* codes, const S* grads, C base, int64_t count, Own* to) {
        constexpr int lanes = kLanes<Own>;
        constexpr std::make_index_sequence<std::size_t(lanes)> all;
        for (int64_t q = 0; q < count; q += lanes) {
            const int64_t at = std::min(q, count - lanes);
            const auto code = load<LoneCode<S>, lanes>(codes + at);
            const auto grad = lone<S, lanes>(grads + at);
            const auto part = [&](int r) POOLGRAD_LAMBDA { return lone_if<S, lanes>(code, C(base + C(r)), grad); };
            const auto write = [&](int64_t i, auto even, auto odd) POOLGRAD_LAMBDA {
                store<Own, lanes>(to + at * stride + i * lanes, zip<0>(even, odd, all));
                store<Own, lanes>(to + at * stride + (i + 1) * lanes, zip<lanes / 2>(even, odd, all));
            };
            if constexpr (stride == 2) {
                write(0, part(0), part(1));
            } else {
                const auto a = part(0), b = part(1), c = part(2), d = part(3);
                write(0, zip<0>(a, c, all), zip<0>(b, d, all));
                write(2, zip<lanes / 2>(a, c, all), zip<lanes / 2>(b, d, all));
            }
        }
    }

    Winners& winners_;
    const MaxCall& call_;
    const MaxSpace space_;
    const MaxBoxes boxes_;
};

}  // namespace poolgrad::POOLGRAD_ISA
