// Runs one kernel a number of times on one thread, for tools/instructions.py to count instructions: instructions NAME CALLS.
// Two calls minus one call is exactly one call: neither start-up nor filling the arrays counts. Without arguments: the names.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pool.h"

using namespace poolgrad;

namespace {

Axis sliding(int64_t size, int64_t window, int64_t stride, bool same) {
    const int64_t outputs = same ? (size + stride - 1) / stride : (size - window) / stride + 1;
    const int64_t padding = std::max<int64_t>(0, (outputs - 1) * stride + window - size);
    return Axis::regular({size, outputs, window, stride, same ? padding / 2 : 0, 0, 0, 0, 0});
}

// Cells of two and three elements in turn, each one longer than its step: what fractional pooling gives.
Axis overlapping(int64_t size) {
    std::vector<int64_t> start, stop, divisor;
    for (int64_t at = 0, step = 2; at < size; at += step, step = 5 - step) {
        start.push_back(at);
        stop.push_back(std::min(at + step + 1, size));
        divisor.push_back(stop.back() - at);
    }
    return Axis::listed(size, start, stop, divisor, 0);
}

// One call of a kernel and the memory it works on. Sizes are small enough for the L2: instructions are counted, not misses.
struct Setup {
    Table table;
    int64_t outer, inner;
    Kind kind;
    std::vector<float> x, y, dx;  // float32 is the widest kind used here
    std::vector<uint8_t> winners;

    Setup(const std::vector<Axis>& pooled, int64_t outer_size, int64_t inner_size, Kind of = Kind::float32)
        : table(pooled), outer(outer_size), inner(inner_size), kind(of) {
        int64_t inputs = outer * inner, outputs = inputs;
        for (std::size_t i = 0; i < 3; ++i) {
            inputs *= table.axis(i).input_size();
            outputs *= table.axis(i).output_size();
        }
        x.resize(std::size_t(inputs));
        y.resize(std::size_t(outputs));
        dx.resize(std::size_t(inputs));
        winners.resize(std::size_t(outputs) * std::size_t(table.winner_bytes()));
        uint32_t state = 1;
        for (auto* row : {&x, &y})
            for (float& value : *row) {
                state = state * 1664525u + 1013904223u;
                value = float(state >> 8) / float(1 << 24);
            }
    }

    AverageCall average(const void* source, void* destination) const {
        return {source, destination, Layout(table, outer, inner), 1, kind, kind};
    }
    MaxCall max() { return {Layout(table, outer, inner), 1, kind, table.winner_bytes(), false, x.data()}; }
};

using Call = std::function<void()>;

Call average(Setup& s) {
    return [&s] { kernels().avg_pool(s.average(s.x.data(), s.y.data())); };
}
Call average_gradient(Setup& s) {
    return [&s] { kernels().avg_pool_grad(s.average(s.y.data(), s.dx.data())); };
}
Call max_forward(Setup& s) {
    return [&s] {
        MaxCall call = s.max();
        call.values = s.y.data();
        call.winners = s.winners.data();
        kernels().max_pool(call);
    };
}
Call max_gradient(Setup& s) {
    max_forward(s)();
    return [&s] {
        MaxCall call = s.max();
        call.grad = s.y.data();
        call.winners = s.winners.data();
        call.destination = s.dx.data();
        if (kernels().max_pool_grad(call) >= 0) std::abort();
    };
}
Call max_gradient_from_input(Setup& s) {
    return [&s] {
        MaxCall call = s.max();
        call.grad = s.y.data();
        call.destination = s.dx.data();
        if (kernels().max_pool_grad(call) >= 0) std::abort();
    };
}

struct Entry {
    std::function<Setup()> setup;
    Call (*call)(Setup&);
};

// So many like axes.
std::vector<Axis> axes(std::size_t count, const Axis& axis) { return std::vector<Axis>(count, axis); }

const std::map<std::string, Entry> entries = {
    {"average_gradient_k3s1_nhwc", {[] { return Setup(axes(2, sliding(28, 3, 1, true)), 2, 64); }, average_gradient}},
    {"average_gradient_k2s2_nchw", {[] { return Setup(axes(2, sliding(56, 2, 2, false)), 32, 1); }, average_gradient}},
    {"average_gradient_box9", {[] { return Setup(axes(3, sliding(32, 9, 1, true)), 1, 1); }, average_gradient}},
    {"average_gradient_fractional", {[] { return Setup(axes(2, overlapping(45)), 1, 32); }, average_gradient}},
    {"average_float16_k2s2_nhwc",
     {[] { return Setup(axes(2, sliding(56, 2, 2, false)), 1, 64, Kind::float16); }, average}},
    {"max_k3s2_nchw", {[] { return Setup(axes(2, sliding(56, 3, 2, true)), 32, 1); }, max_forward}},
    {"max_gradient_k2s2_nhwc", {[] { return Setup(axes(2, sliding(56, 2, 2, false)), 1, 64); }, max_gradient}},
    {"max_gradient_from_input_k3s2_nhwc",
     {[] { return Setup(axes(2, sliding(28, 3, 2, true)), 2, 64); }, max_gradient_from_input}},
    {"max_gradient_from_input_27_covers",
     {[] { return Setup(axes(3, sliding(14, 3, 1, true)), 1, 32); }, max_gradient_from_input}},
};

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        for (const auto& [name, entry] : entries) std::puts(name.c_str());
        return 0;
    }
    const Entry& entry = entries.at(words[1]);
    Setup setup = entry.setup();
    const Call call = entry.call(setup);
    for (int i = std::atoi(words[2]); i > 0; --i) call();
    return 0;
}
