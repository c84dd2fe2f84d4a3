// Maxima of a call, with winners or without: boxes of outputs, found by Best and written to where they belong.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// Where nothing is to be turned or converted.
template <class S, class V>
bool put_as_found(Writer<S>& writer, int64_t at, const V* values, int64_t length, Turn<V> sign) {
    if constexpr (std::is_same_v<S, V>)
        if (!sign.mask) return writer.put(at, values, length), true;
    return false;
}

template <class S, class V, class C, bool coded>
void max_forward_with(const MaxCall& call) {
    const MaxSpace space(call.layout);
    Tiling tiling{{space.outer, space.depth.output_size(), space.height.output_size(), space.width.output_size(), space.inner}, {}};
    if (tiling.empty()) return;
    const Best<S, V, C, coded> best(call, space, true, true);
    const int64_t traffic = space.inputs() * int64_t(sizeof(S)) + space.outputs() * (int64_t(sizeof(S)) + call.winner_bytes);
    tiling.tile = {1, tiling.extent[1], tiling.extent[2], best.direct() ? best.in_one_pass().strip() : best.tile(), best.run()};
    const int64_t bytes = divide_up(traffic, tiling.elements());
    tiling.extent[0] = divide_up(tiling.extent[0], best.planes());
    if (space.depth.longest_window() > 1 && !best.bundled() && !best.keeps_rows())
        tiling.tile[2] = std::min(tiling.extent[2], divide_up(16, best.block()) * best.block());
    balance(tiling, call.workers, bytes * best.planes());
    const Turn<V> sign(call, Type<S>());
    using Rooms = typename Best<S, V, C, coded>::Rooms;
    // A row, or several one after the other, at most; and what does not fill a line. Results that fit the caches are not streamed: they are
    // few beside what is read.
    const bool stream = call.values && best.planes() == 1 && space.outputs() * int64_t(sizeof(S)) >= 32 << 20;
    const int64_t staged = stream ? best.most() + 512 : 0;
    Arena measure(nullptr);
    Rooms(best, measure);
    measure.take<S>(staged);
    run_boxes(tiling, call.workers, traffic, measure.used(), [&](const Box& box, std::byte* scratch) {
        Arena arena(scratch);
        Rooms rooms(best, arena);
        S* staging = arena.take<S>(staged);
        Writer<S> writer(static_cast<S*>(call.values), stream ? staging : nullptr, staged);
        const int64_t run = box.inner.size(), columns = box.width.size();
        // Every plane's part to where it belongs.
        const auto store_group = [&](int64_t group, int64_t index, int64_t count, const V* values, const C* codes) {
            const int64_t first = space.output_at(group * kPlanes<V>, 0, 0, 0) + index, pitch = space.output_at(1, 0, 0, 0);
            const auto at = [&](int p) { return first + p * pitch; };
            const int64_t there = std::min<int64_t>(kPlanes<V>, space.outer - group * kPlanes<V>);
            S* to[kPlanes<V>];
            for (int p = 0; p < kPlanes<V>; ++p) to[p] = p < there ? static_cast<S*>(call.values) + at(p) : rooms.spare;
            if (call.values) store_planes<V, S>(to, values, count);
            if constexpr (coded) store_plane_codes<S>(call.winners, call.winner_bytes, codes, count, int(there), rooms.spare_codes, at);
        };
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) {
            if constexpr (!kPlain<S, V>)
                if (best.direct()) {
                    best.in_one_pass().straight(rooms.direct, outer, box, [&](int64_t d, int64_t h, Range part, const auto& search) {
                        // Of parts of inner, one is given at a time.
                        const int64_t at = space.output_at(outer, d, h, part.first) + box.inner.first, length = part.size() * run;
                        search(call.values ? writer.row(at, length) : rooms.direct.stored);
                        if constexpr (coded) write_codes<S>(call.winners, call.winner_bytes, at, rooms.direct.codes, length);
                    });
                    continue;
                }
            if constexpr (Best<S, V, C, coded>::kBundles)
                if (best.bundled()) {
                    best.in_one_pass().bundle(rooms.direct, outer, box, [&](auto... found) { store_group(outer, found...); });
                    continue;
                }
            if constexpr (std::is_same_v<S, V>)
                if (best.passes()) {
                    // Streamed pieces go from where they were made.
                    const auto at = [&](int64_t d, int64_t h, int64_t from) {
                        return space.output_at(outer, d, h, box.width.first) + box.inner.first + from;
                    };
                    V* const results = stream ? nullptr : static_cast<V*>(call.values);
                    best.in_passes().run(
                        rooms.passes, outer, box, sign,
                        [&](int64_t d, int64_t h, int64_t i, int64_t from) {
                            return results ? results + at(d, h, from) : rooms.passes.values + i * best.in_passes().piece_size();
                        },
                        [&](int64_t d, int64_t h, int64_t from, int64_t length, V* values, C* codes) {
                            if (stream) writer.put(at(d, h, from), values, length);
                            if constexpr (coded) write_codes<S>(call.winners, call.winner_bytes, at(d, h, from), codes, length);
                        });
                    continue;
                }
            // Lines may be of all planes of the box.
            const Range planes = best.lines() ? box.outer : Range{outer, outer + 1};
            best.rows(rooms, planes, box, [&](int64_t first, int64_t d, int64_t h, int64_t count, int64_t from, int64_t each, V* values, C* codes) {
                if constexpr (kWords<S, V>)
                    if (best.planes() > 1) {  // turned back in place
                        store_values(values, values, columns * kPlanes<V>, sign);
                        return store_group(outer, space.output_at(0, d, h, box.width.first), columns, values, codes);
                    }
                // Whole rows lie one after the other.
                const int64_t rows = columns == space.width.output_size() ? 1 : count, length = count / rows * each;
                for (int64_t i = 0; i < rows; ++i) {
                    const int64_t at = space.output_at(first, d, h + i, box.width.first) + box.inner.first + from;
                    if (call.values && !put_as_found(writer, at, values + i * length, length, sign))
                        store_values(writer.row(at, length), values + i * length, length, sign);
                    if constexpr (coded) write_codes<S>(call.winners, call.winner_bytes, at, codes + i * length, length);
                }
            });
            if (best.lines()) break;
        }
        writer.finish();
    });
}

template <class S, class V, class C>
void max_forward(const MaxCall& call) {
    if (call.winners) return max_forward_with<S, V, C, true>(call);
    max_forward_with<S, V, C, false>(call);
}

}  // namespace poolgrad::POOLGRAD_ISA
