// Small planes are scattered as one: each gradient is added at start[output] + offset[code], by two tables made once a call. The tiniest ones
// are joined, and of inner runs each element counts as an output.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

template <class S, class V, class C>
class MaxPlanes {
    using Winners = WinnerRows<S, V, C>;
    using A = MaxSum<S, V, C>;
    static constexpr int64_t kCached = 256 << 10, kTables = 32 << 10;     // elements of a plane that stays in the second cache, its outputs
    static constexpr int64_t kOutputs = 4096;                             // of larger planes, or of planes that are searched together
    static constexpr int64_t kTogether = 4, kTogetherInputs = 16 << 10;  // planes at once, and how large
    static constexpr int64_t kJoinedOutputs = 256, kJoinedInputs = 4096;  // of tiny planes that are joined to one
    static constexpr int64_t kShortRun = 8;                               // longer runs of larger planes are scattered run by run

  public:
    // Of boxes that are as large as a plane.
    static bool usable(const Winners& winners, const MaxBoxes& boxes) {
        const MaxSpace& space = winners.space();
        const int64_t inputs = space.input_at(1, 0, 0, 0), outputs = space.output_at(1, 0, 0, 0);
        return (space.inner == 1 || !winners.from_input()) && inputs <= 1 << 20 && winners.decode().codes() &&
               outputs <= (inputs <= kCached && space.inner < kShortRun ? kTables : kOutputs) &&
               (!winners.from_input() || boxes.found >= outputs);
    }

    MaxPlanes(Winners& winners, const MaxBoxes& boxes)
        : winners_(winners), call_(winners.call()), space_(winners.space()), decode_(winners.decode()), boxes_(boxes),
          inputs_(space_.input_at(1, 0, 0, 0)), outputs_(space_.output_at(1, 0, 0, 0)),
          joined_(std::clamp<int64_t>(std::min(kJoinedOutputs / std::max<int64_t>(1, outputs_), kJoinedInputs / inputs_), 1, space_.outer)),
          together_(inputs_ <= kTogetherInputs ? kTogether * joined_ : 1), all_codes_(winners.codes_of_all()), memory_(tables(nullptr)) {
        tables(memory_.data());
    }

    struct Rooms : Winners::Rooms {
        Rooms(const MaxPlanes& job, Arena& arena) : Winners::Rooms(job.winners_, arena, job.boxes_, 0, false) {
            sums = arena.take<A>(job.boxes_.beside ? job.inputs_ * job.together_ : 0);
        }
        A* sums;
    };

    void compute(Rooms& rooms, const Box& box) const {
        if (!winners_.from_input()) {
            for (int64_t outer = box.outer.first; outer < box.outer.last; outer += together_)
                scatter(rooms, outer, std::min(together_, box.outer.last - outer), outer * outputs_);
            return;
        }
        // Small planes are searched together.
        const Box outputs = winners_.outputs_of(box);
        const int planes = winners_.planes();
        const int64_t each = std::max<int64_t>(1, outputs_);
        const int64_t searched = planes == 1 ? std::clamp<int64_t>(kOutputs / each, 1, boxes_.found / each) : 1;
        for (Range groups{0, box.outer.first}; groups.last < box.outer.last;) {
            groups = {groups.last, std::min(groups.last + searched, box.outer.last)};
            winners_.find(rooms, groups, outputs);
            const int64_t last = std::min(groups.last * planes, space_.outer);
            for (int64_t outer = groups.first * planes, count; outer < last; outer += count) {
                count = std::min(together_, last - outer);
                scatter(rooms, outer, count, (outer - rooms.found_from) * outputs_);
            }
        }
    }

  private:
    // Where each window starts and which codes it has (a mask of up to 32 codes, else its packed lengths), and what codes add to that.
    int64_t tables(std::byte* base) {
        Arena arena(base);
        const int64_t outputs = outputs_ * joined_, run = space_.inner;
        starts_ = arena.take<int32_t>(outputs);
        uint32_t*& codes = decode_.small() ? masks_ : lengths_;
        codes = arena.take<uint32_t>(outputs);
        offsets_ = arena.take<int64_t>(decode_.codes());
        if (!base) return arena.used();
        const int64_t row = space_.width.input_size() * run, plane = space_.height.input_size() * row;
        for (int64_t code = 0; code < decode_.codes(); ++code) {
            const Offset offset = decode_(uint64_t(code));
            offsets_[code] = offset.depth * plane + offset.height * row + offset.width * run;
        }
        // Most rows are the one before, further on.
        const int64_t columns = space_.width.output_size() * run;
        std::array<int64_t, 3> before{};  // where the row before began, and how many depths and heights its windows have
        int64_t at = 0;
        for (int64_t d = 0; d < space_.depth.output_size(); ++d)
            for (int64_t h = 0; h < space_.height.output_size(); ++h, at += columns) {
                const Range z = space_.depth.window(d), y = space_.height.window(h);
                const std::array<int64_t, 3> here{z.first * plane + y.first * row, z.size(), y.size()};
                if (here[1] == before[1] && here[2] == before[2]) {
                    const int32_t further = int32_t(here[0] - before[0]);
                    for (int64_t w = at; w < at + columns; ++w) starts_[w] = starts_[w - columns] + further, codes[w] = codes[w - columns];
                } else {
                    for (int64_t w = at; w < at + columns; ++w) {
                        const Range x = space_.width.window((w - at) / run);
                        starts_[w] = int32_t(here[0] + x.first * run + (w - at) % run);
                        codes[w] = decode_.small() ? decode_.mask(here[1], here[2], x.size()) : Decoder::pack_lengths(here[1], here[2], x.size());
                    }
                }
                before = here;
            }
        for (; at < outputs; ++at) starts_[at] = int32_t(starts_[at - outputs_] + inputs_), codes[at] = codes[at - outputs_];
        return arena.used();
    }

    // Some planes side by side: in one, an addition often has to wait for the one before, which went to the same place.
    void scatter(const Rooms& rooms, int64_t outer, int64_t planes, int64_t first_code) const {
        const int64_t outputs = outputs_, inputs = inputs_;
        S* result = static_cast<S*>(call_.destination) + outer * inputs;
        const S* grads = static_cast<const S*>(call_.grad) + outer * outputs;
        A* sums = boxes_.beside ? rooms.sums : reinterpret_cast<A*>(result);
        std::memset(sums, 0, std::size_t(inputs * planes) * sizeof(A));
        visit_winners<C, S>(winners_.from_input() ? rooms.found : call_.winners, call_.winner_bytes, [&](const auto* typed) {
            const auto* codes = typed + first_code;
            if (!winners_.from_input() && !all_among(codes, planes * outputs, all_codes_)) {
                bool good = true;
                for (int64_t p = 0; p < planes; p += joined_) good &= check(codes + p * outputs, outer + p, std::min(joined_, planes - p));
                if (!good) return;
            }
            if constexpr (sizeof(*codes) == 1)
                if (space_.inner % 8 == 0) {
                    const Adds<S, A, uint8_t, false> adds{offsets_};
                    const int64_t unit = joined_ * outputs;
                    for (int64_t p = 0; p < planes; p += joined_)
                        for (int64_t i = 0, last = std::min(unit, (planes - p) * outputs); i < last; i += 8)
                            adds.eight(sums + p * inputs + starts_[i], codes + p * outputs + i, grads + p * outputs + i);
                    return;
                }
            const auto add = [&](auto count, int64_t first, int64_t each) POOLGRAD_LAMBDA {
                A* to = sums + first * inputs;
                const auto* from = codes + first * outputs;
                const S* grad = grads + first * outputs;
                const int64_t further = each * inputs, items = each * outputs;
                const int32_t* starts = starts_;
                const int64_t* offsets = offsets_;
                for (int64_t i = 0; i < items; ++i, ++from, ++grad)
                    for (int p = 0; p < count(); ++p) {
                        A& sum = to[p * further + starts[i] + offsets[from[p * items]]];
                        sum = A(sum + load<A, 1>(grad + p * items));
                    }
            };
            if (planes == kTogether * joined_)
                add(Constant<kTogether>(), 0, joined_);
            else
                for (int64_t p = 0; p < planes; p += joined_) add(Constant<1>(), p, std::min(joined_, planes - p));
        });
        if (boxes_.beside) write_sums(result, sums, inputs * planes, boxes_.stream);
    }
    template <class W>
    bool check(const W* codes, int64_t outer, int64_t planes) const {
        const int64_t outputs = outputs_ * planes;
        const auto lengths_of = [this](auto lanes, int64_t at) POOLGRAD_LAMBDA { return load<uint32_t, lanes()>(lengths_ + at); };
        if (decode_.small() ? all_in_each(codes, outputs, masks_) : decode_.all_inside(codes, outputs, lengths_of)) return true;
        bool good = true;
        const int64_t run = space_.inner, row = space_.width.output_size() * run, plane = space_.height.output_size() * row;
        for (int64_t i = 0; i < outputs; ++i) {
            const int64_t at = i % outputs_;
            if (!Decoder::inside(decode_(codes[i]), space_.depth.window(at / plane), space_.height.window(at % plane / row),
                                 space_.width.window(at % row / run)))
                good = false, winners_.report(outer * outputs_ + i);
        }
        return good;
    }

    Winners& winners_;
    const MaxCall& call_;
    const MaxSpace space_;
    const Decoder& decode_;
    const MaxBoxes boxes_;
    const int64_t inputs_, outputs_;   // of a plane
    const int64_t joined_, together_;  // planes that are joined; planes at once
    const int64_t all_codes_;          // how many codes all windows have, if they are alike
    int32_t* starts_ = nullptr;
    int64_t* offsets_ = nullptr;
    uint32_t *masks_ = nullptr, *lengths_ = nullptr;
    const Scratch memory_;
};

}  // namespace poolgrad::POOLGRAD_ISA
