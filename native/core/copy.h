// The machine's copy limit: what the traffic of a call costs if nothing is computed.
#pragma once

namespace poolgrad::POOLGRAD_ISA {

void limit_copy(const CopyCall& call) {
    // Pieces of 32 KiB of the larger side, so that reads and writes interleave as in a kernel.
    const int64_t larger = std::max(call.read_bytes, call.write_bytes);
    if (larger == 0) return;
    constexpr int64_t piece = 32 << 10;
    Tiling tiling{{1, 1, 1, divide_up(larger, piece), 1}, {1, 1, 1, 8, 1}};
    run_boxes(tiling, call.workers, call.read_bytes + call.write_bytes, 0, [&](const Box& box, std::byte*) {
        using Line = Vector<int32_t, kLanes<int32_t>>;
        constexpr int64_t step = 4 * kVectorBytes;
        const int64_t pieces = divide_up(larger, piece);
        const auto cut = [&](int64_t bytes, int64_t i) { return int64_t(__int128(bytes) * i / pieces / 16 * 16); };
        for (int64_t i = box.width.first; i < box.width.last; ++i) {
            const auto* from = static_cast<const std::byte*>(call.source);
            auto* to = static_cast<std::byte*>(call.destination);
            const bool end = i + 1 == pieces;
            int64_t read = cut(call.read_bytes, i), written = cut(call.write_bytes, i);
            const int64_t read_last = end ? call.read_bytes : cut(call.read_bytes, i + 1);
            const int64_t write_last = end ? call.write_bytes : cut(call.write_bytes, i + 1);
            Line seen[4] = {};
            for (; read + step <= read_last; read += step)
                for (int k = 0; k < 4; ++k)
                    seen[k] |= load<int32_t, kLanes<int32_t>>(reinterpret_cast<const int32_t*>(from + read + k * kVectorBytes));
            int32_t rest = 0;
            for (; read < read_last; ++read) rest |= int32_t(from[read]);
            const Line value = (seen[0] | seen[1]) | (seen[2] | seen[3]) | rest;
            const bool streamed = call.streaming && reinterpret_cast<std::uintptr_t>(to + written) % 16 == 0;
            for (; written + kVectorBytes <= write_last; written += kVectorBytes) {
                auto* at = reinterpret_cast<int32_t*>(to + written);
                if (streamed)
                    stream<int32_t, kLanes<int32_t>>(at, value);
                else
                    store<int32_t, kLanes<int32_t>>(at, value);
            }
            for (; written < write_last; ++written) to[written] = std::byte(value[0]);
        }
        if (call.streaming) stream_fence();
    });
}

}  // namespace poolgrad::POOLGRAD_ISA
