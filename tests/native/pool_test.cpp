// Drives the pool and the kernels from several threads at once and compares every result with that of one worker. A plain program:
// it is run as it is, under ThreadSanitizer, and under AddressSanitizer with UndefinedBehaviorSanitizer.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "pool.h"

using namespace poolgrad;

namespace {

int checks = 0, failures = 0;

void expect(bool right, const char* what) {
    ++checks;
    if (right) return;
    std::printf("FAILED: %s\n", what);
    ++failures;
}

struct Job {
    Table table;
    int64_t outer, inner;
    std::vector<float> input, grad;

    Job(std::vector<Axis> axes, int64_t outer_size, int64_t inner_size) : table(axes), outer(outer_size), inner(inner_size) {
        int64_t inputs = outer * inner, outputs = outer * inner;
        for (const Axis& axis : axes) inputs *= axis.input_size(), outputs *= axis.output_size();
        for (int64_t i = 0; i < inputs; ++i) input.push_back(float((i * 7919) % 1009) - 500);
        for (int64_t i = 0; i < outputs; ++i) grad.push_back(float((i * 104729) % 503) / 7);
    }

    std::vector<float> average(int workers) const {
        std::vector<float> result(grad.size());
        kernels().avg_pool({input.data(), result.data(), {table, outer, inner}, workers, Kind::float32, Kind::float32});
        return result;
    }
    std::vector<float> average_gradient(int workers) const {
        std::vector<float> result(input.size());
        kernels().avg_pool_grad({grad.data(), result.data(), {table, outer, inner}, workers, Kind::float32, Kind::float32});
        return result;
    }
    std::vector<float> max_gradient(int workers) const {
        std::vector<float> result(input.size());
        MaxCall call{{table, outer, inner}, workers, Kind::float32, table.winner_bytes()};
        call.source = input.data(), call.grad = grad.data(), call.destination = result.data();
        if (kernels().max_pool_grad(call) != -1) std::abort();
        return result;
    }
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Axis sliding(int64_t size, int64_t window, int64_t stride) {
    return Axis::regular({size, (size - window) / stride + 1, window, stride, 0, 0, 0, 0, 0});
}

void check(const Job& job) {
    const auto average = job.average(1), average_gradient = job.average_gradient(1), max_gradient = job.max_gradient(1);
    std::vector<std::thread> threads;
    bool right[4] = {};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            bool all = true;
            for (int round = 0; round < 3; ++round)
                all = all && same(job.average(2 + t), average) && same(job.average_gradient(2 + t), average_gradient) &&
                      same(job.max_gradient(2 + t), max_gradient);
            right[t] = all;
        });
    for (std::thread& thread : threads) thread.join();
    for (bool each : right) expect(each, "the same bits from four threads and any number of workers");
}

// A child of fork has none of the pool's threads and must start its own.
[[maybe_unused]] void check_fork(const Job& job) {
    const auto expected = job.average(3);
    const pid_t child = fork();
    if (child == 0) _exit(same(job.average(3), expected) ? 0 : 1);
    int status = 0;
    expect(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child computes");
}

}  // namespace

int main() {
    const Job jobs[] = {
        Job({sliding(64, 3, 2), sliding(64, 3, 2)}, 2, 24),
        Job({sliding(20, 3, 1), sliding(30, 5, 2), sliding(40, 2, 2)}, 3, 1),
        Job({Axis::listed(5000, {0, 10, 10, 4000}, {11, 2000, 3000, 5000}, {11, 1990, 2990, 1000}, 0)}, 4, 3),
    };
    for (const Job& job : jobs) check(job);
#if !defined(__SANITIZE_THREAD__)  // which does not follow a child that starts threads
    check_fork(jobs[0]);
#endif
    std::printf("%d passed, %d failed\n", checks - failures, failures);
    return failures != 0;
}
