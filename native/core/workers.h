// A small persistent pool of threads. libgomp is not used because it hangs in a forked child.
#pragma once

#include <cstdint>

namespace poolgrad {

// Calls body(context, item, slot) for every item in [0, items), each once, on up to `workers` threads, the caller's included.
// slot in [0, workers) is held by one thread at a time during the call: it names that thread's scratch. Bodies must not throw.
// Any number of threads may call at once. All of them compute in the default floating-point mode.
using Body = void (*)(void* context, int64_t item, int slot);
void run_parallel(int64_t items, int workers, Body body, void* context) noexcept;

template <class Function>
void parallel_for(int64_t items, int workers, Function& function) noexcept {
    run_parallel(
        items, workers,
        [](void* context, int64_t item, int slot) { (*static_cast<Function*>(context))(item, slot); }, &function);
}

}  // namespace poolgrad
