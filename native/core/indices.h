// Scatter and gather by indices that a caller gives (argmax), over [outer, count] gradients and [outer, size] destinations.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

// destination[o, indices[o, j]] += grad[o, j] in flat order. First a pass that checks the indices and notes the least and greatest of
// each block; then workers own disjoint pieces of the destination and skip the blocks that do not touch theirs.
template <class S>
int64_t scatter(const IndexCall& call) {
    using A = Accumulator<S>;
    const S* grad = static_cast<const S*>(call.source);
    S* destination = static_cast<S*>(call.destination);
    const int64_t total = call.outer * call.count, traffic = (total + call.outer * call.size) * int64_t(sizeof(S));
    // Blocks of one outer slice; 16 bytes each, at most 32768 of them: 512 KiB.
    const int64_t block = std::max<int64_t>(1024, divide_up(std::max<int64_t>(1, total), 32768));
    const int64_t blocks = divide_up(call.count, block);
    const Scratch notes(call.outer * blocks <= 65536 ? call.outer * blocks * int64_t(sizeof(Range)) : 0);
    Range* spans = reinterpret_cast<Range*>(notes.data());
    FirstIndex bad;
    Tiling scan{{call.outer, 1, 1, blocks, 1}, {1, 1, 1, 1, 1}};
    if (total) {
        scan.tile[3] = std::max<int64_t>(1, std::min(blocks, divide_up(call.outer * blocks, 4 * call.workers)));
        run_boxes(scan, call.workers, traffic, 0, [&](const Box& box, std::byte*) {
            for (int64_t b = box.width.first; b < box.width.last; ++b) {
                const int64_t base = box.outer.first * call.count, last = std::min((b + 1) * block, call.count);
                Range span{INT64_MAX, -1};
                for (int64_t j = b * block; j < last; ++j) {
                    const int64_t index = call.indices[base + j];
                    if (index < 0 || index >= call.size) bad.report(base + j);
                    span = {std::min(span.first, index), std::max(span.last, index)};
                }
                if (spans) spans[box.outer.first * blocks + b] = span;
            }
        });
        if (bad.value() >= 0) return bad.value();
    }
    if (call.outer == 0 || call.size == 0) return -1;
    constexpr int64_t piece = 256 << 10;  // elements: 1 MiB of float sums
    Tiling tiling{{call.outer, 1, 1, call.size, 1}, {1, 1, 1, std::min(piece, call.size), 1}};
    balance(tiling, call.workers, int64_t(sizeof(S)));
    const int64_t sums_bytes = is_small_float<S> ? tiling.tile[3] * int64_t(sizeof(A)) : 0;
    run_boxes(tiling, call.workers, traffic, sums_bytes, [&](const Box& box, std::byte* scratch) {
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer) {
            const Range own = box.width;
            A* sums = is_small_float<S> ? reinterpret_cast<A*>(scratch) : reinterpret_cast<A*>(destination + outer * call.size + own.first);
            std::fill_n(sums, own.size(), A(0));
            for (int64_t b = 0; b < blocks; ++b) {
                const Range span = spans ? spans[outer * blocks + b] : own;
                if (span.last < own.first || span.first >= own.last) continue;
                const int64_t last = std::min((b + 1) * block, call.count);
                for (int64_t j = b * block; j < last; ++j) {
                    const int64_t index = call.indices[outer * call.count + j];
                    if (index < own.first || index >= own.last) continue;
                    A& sum = sums[index - own.first];
                    sum = A(sum + load<A, 1>(grad + outer * call.count + j));
                }
            }
            if constexpr (is_small_float<S>)
                for (int64_t i = 0; i < own.size(); ++i) store<A, 1>(destination + outer * call.size + own.first + i, sums[i]);
        }
    });
    return -1;
}

// destination[o, j] = source[o, indices[o, j]]
template <class S>
int64_t gather(const IndexCall& call) {
    FirstIndex bad;
    if (call.outer == 0 || call.count == 0) return -1;
    Tiling tiling{{call.outer, 1, 1, call.count, 1}, {1, 1, 1, call.count, 1}};
    balance(tiling, call.workers, int64_t(sizeof(S)) + 8);
    run_boxes(tiling, call.workers, call.outer * call.count * (int64_t(sizeof(S)) * 2 + 8), 0, [&](const Box& box, std::byte*) {
        for (int64_t outer = box.outer.first; outer < box.outer.last; ++outer)
            for (int64_t j = box.width.first; j < box.width.last; ++j) {
                const int64_t index = call.indices[outer * call.count + j];
                if (index < 0 || index >= call.size) bad.report(outer * call.count + j);
                else static_cast<S*>(call.destination)[outer * call.count + j] = static_cast<const S*>(call.source)[outer * call.size + index];
            }
    });
    return bad.value();
}

}  // namespace poolgrad::POOLGRAD_ISA
