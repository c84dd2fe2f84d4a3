// The Python module `_core`: checks of arrays, release of the GIL, nothing else. Sizes are checked here against the table, so that
// no call through it reads or writes outside the arrays it was given.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cxxabi.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "memory.h"
#include "pool.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace poolgrad;

namespace {

using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_index(int64_t index, int64_t size, const char* what) {
    if (index < 0 || index >= size)
        throw nb::index_error((std::string(what) + " " + std::to_string(index) + " is not in [0, " + std::to_string(size) + ")").c_str());
}

int64_t product(std::initializer_list<int64_t> factors, const char* name) {
    int64_t result = 1;
    bool overflow = false, zero = false;
    for (int64_t factor : factors) {
        if (factor < 0) throw std::invalid_argument(std::string(name) + ": negative size " + std::to_string(factor));
        zero |= factor == 0;
        overflow |= __builtin_mul_overflow(result, factor, &result);
    }
    if (zero) return 0;
    if (overflow) throw std::invalid_argument(std::string(name) + ": the product of its sizes exceeds 2**63");
    return result;
}

template <class Array>
void check_bytes(const Array& array, int64_t bytes, const char* name) {
    if (int64_t(array.nbytes()) != bytes)
        throw std::invalid_argument(std::string(name) + " holds " + std::to_string(array.nbytes()) + " bytes; the table needs " +
                                    std::to_string(bytes));
}

void check_workers(int workers) {
    if (workers < 1 || workers > 1024)
        throw std::invalid_argument("workers must be from 1 to 1024, got " + std::to_string(workers));
}

// The arguments every pooling call has, checked together with its arrays.
struct Shape {
    const Table& table;
    int64_t outer, inner, input, output, bytes;
    Kind kind;
    int workers;

    Shape(const Table& t, int64_t outer_size, int64_t inner_size, int kind_number, int worker_count)
        : table(t), outer(outer_size), inner(inner_size), kind(Kind(kind_number)), workers(worker_count) {
        check_workers(workers);
        input = product({outer, t.axis(0).input_size(), t.axis(1).input_size(), t.axis(2).input_size(), inner}, "input");
        output = product({outer, t.axis(0).output_size(), t.axis(1).output_size(), t.axis(2).output_size(), inner}, "output");
        bytes = item_size(kind);
    }
    template <class Array>
    void check_input(const Array& array, const char* name) const { check_bytes(array, product({input, bytes}, name), name); }
    template <class Array>
    void check_output(const Array& array, const char* name) const { check_bytes(array, product({output, bytes}, name), name); }
    template <class Array>
    void check_winners(const Array& array) const {
        check_bytes(array, product({output, table.winner_bytes()}, "winners"), "winners");
    }
    Layout layout() const { return {table, outer, inner}; }
    // Additions or comparisons of a pass that is not separated: a small input may have many large windows.
    double work() const {
        double terms = double(output);
        for (std::size_t i = 0; i < 3; ++i) terms *= double(table.axis(i).longest_window());
        return terms + double(input);
    }
    MaxCall max_call(bool minimum) const {
        MaxCall call{layout(), workers, kind, table.winner_bytes(), minimum};
        return call;
    }
};

// While the interpreter ends, CPython before 3.14 ends a thread that asks for the GIL by unwinding it, and nanobind's frames, which
// may not be unwound, would abort the process. The thread waits here for the end of the process instead.
void take_gil(PyThreadState* state) {
#ifdef __GLIBCXX__
    try {
        PyEval_RestoreThread(state);
    } catch (abi::__forced_unwind&) {
        for (;;) pause();
    }
#else
    PyEval_RestoreThread(state);
#endif
}

// Small calls keep the GIL: giving it up and taking it back costs more than they do.
template <class Function>
int64_t without_gil(double work, const Function& function) {
    if (work < 16384) return function();
    PyThreadState* const state = PyEval_SaveThread();
    int64_t result;
    try {
        result = function();
    } catch (...) {
        take_gil(state);
        throw;
    }
    take_gil(state);
    return result;
}

void avg_pool(const Input& source, const Output& destination, const Table& table, int64_t outer, int64_t inner, int kind, int workers) {
    const Shape shape(table, outer, inner, kind, workers);
    shape.check_input(source, "source");
    shape.check_output(destination, "destination");
    const AverageCall call{source.data(), destination.data(), shape.layout(), workers, shape.kind, shape.kind};
    without_gil(shape.work(), [&] { return kernels().avg_pool(call), 0; });
}

void mean_pool(const Input& source, const Output& destination, const Table& table, int64_t outer, int64_t inner, int kind,
               int destination_kind, int workers) {
    const Shape shape(table, outer, inner, kind, workers);
    shape.check_input(source, "source");
    check_bytes(destination, product({shape.output, item_size(Kind(destination_kind))}, "destination"), "destination");
    const AverageCall call{source.data(), destination.data(), shape.layout(), workers, shape.kind, Kind(destination_kind)};
    without_gil(shape.work(), [&] { return kernels().mean_pool(call), 0; });
}

void avg_pool_grad(const Input& source, const Output& destination, const Table& table, int64_t outer, int64_t inner, int kind, int workers) {
    const Shape shape(table, outer, inner, kind, workers);
    shape.check_output(source, "source");
    shape.check_input(destination, "destination");
    const AverageCall call{source.data(), destination.data(), shape.layout(), workers, shape.kind, shape.kind};
    without_gil(shape.work(), [&] { return kernels().avg_pool_grad(call), 0; });
}

void max_pool(const Input& source, const std::optional<Output>& values, const std::optional<Output>& winners, const Table& table,
              int64_t outer, int64_t inner, int kind, bool minimum, int workers) {
    const Shape shape(table, outer, inner, kind, workers);
    shape.check_input(source, "source");
    MaxCall call = shape.max_call(minimum);
    call.source = source.data();
    if (values) shape.check_output(*values, "values"), call.values = values->data();
    if (winners) shape.check_winners(*winners), call.winners = winners->data();
    without_gil(shape.work(), [&] { return kernels().max_pool(call), 0; });
}

int64_t max_pool_grad(const Input& grad, const Input& winners, const Output& destination, const Table& table, int64_t outer,
                      int64_t inner, int kind, int workers) {
    const Shape shape(table, outer, inner, kind, workers);
    shape.check_output(grad, "grad");
    shape.check_winners(winners);
    shape.check_input(destination, "destination");
    MaxCall call = shape.max_call(false);
    call.grad = grad.data(), call.winners = const_cast<void*>(winners.data()), call.destination = destination.data();
    return without_gil(shape.work(), [&] { return kernels().max_pool_grad(call); });
}

int64_t max_pool_grad_from_input(const Input& orig_input, const std::optional<Input>& orig_output, const Input& grad,
                                 const Output& destination, const Table& table, int64_t outer, int64_t inner, int kind, bool minimum,
                                 int workers) {
    const Shape shape(table, outer, inner, kind, workers);
    shape.check_input(orig_input, "orig_input");
    shape.check_output(grad, "grad");
    shape.check_input(destination, "destination");
    MaxCall call = shape.max_call(minimum);
    call.source = orig_input.data(), call.grad = grad.data(), call.destination = destination.data();
    if (orig_output) shape.check_output(*orig_output, "orig_output"), call.expected = orig_output->data();
    return without_gil(shape.work(), [&] { return kernels().max_pool_grad(call); });
}

int64_t take_winners(const Input& source, const Input& winners, const Output& destination, const Table& table, int64_t outer,
                     int64_t inner, int kind, int workers) {
    const Shape shape(table, outer, inner, kind, workers);
    shape.check_input(source, "source");
    shape.check_winners(winners);
    shape.check_output(destination, "destination");
    MaxCall call = shape.max_call(false);
    call.source = source.data(), call.winners = const_cast<void*>(winners.data()), call.destination = destination.data();
    return without_gil(shape.work(), [&] { return kernels().take_winners(call); });
}

IndexCall index_call(const Input& source, const Input& indices, const Output& destination, int64_t outer, int64_t count, int64_t size,
                     int64_t source_size, int64_t destination_size, int kind, int workers) {
    check_workers(workers);
    const int64_t bytes = item_size(Kind(kind));
    check_bytes(source, product({outer, source_size, bytes}, "source"), "source");
    check_bytes(indices, product({outer, count, 8}, "indices"), "indices");
    check_bytes(destination, product({outer, destination_size, bytes}, "destination"), "destination");
    return {source.data(), static_cast<const int64_t*>(indices.data()), destination.data(), outer, count, size, workers, Kind(kind)};
}

int64_t scatter_indices(const Input& grad, const Input& indices, const Output& destination, int64_t outer, int64_t count, int64_t size,
                        int kind, int workers) {
    const IndexCall call = index_call(grad, indices, destination, outer, count, size, count, size, kind, workers);
    return without_gil(double(outer) * double(count + size), [&] { return kernels().scatter_indices(call); });
}

int64_t gather_indices(const Input& source, const Input& indices, const Output& destination, int64_t outer, int64_t count, int64_t size,
                       int kind, int workers) {
    const IndexCall call = index_call(source, indices, destination, outer, count, size, size, count, kind, workers);
    return without_gil(double(outer) * double(count), [&] { return kernels().gather_indices(call); });
}

void limit_copy(const Input& source, const Output& destination, int64_t read_bytes, int64_t write_bytes, bool streaming, int workers) {
    check_workers(workers);
    if (read_bytes < 0 || read_bytes > int64_t(source.nbytes()) || write_bytes < 0 || write_bytes > int64_t(destination.nbytes()))
        throw std::invalid_argument("limit_copy: read_bytes and write_bytes must fit the arrays");
    const CopyCall call{source.data(), destination.data(), read_bytes, write_bytes, streaming, workers};
    without_gil(double(read_bytes) + double(write_bytes), [&] { return kernels().limit_copy(call), 0; });
}

int64_t scratch_peak(bool reset) {
    const int64_t peak = scratch_most.load();
    if (reset) scratch_most.store(scratch_now.load());
    return peak;
}

std::vector<int64_t> to_vector(const Integers& array) { return {array.data(), array.data() + array.size()}; }

// start, stop and divisor of outputs [first, last), as an int64 array of three columns.
nb::ndarray<nb::numpy, int64_t, nb::ndim<2>> windows(const Axis& axis, int64_t first, int64_t last) {
    if (first < 0 || last < first || last > axis.output_size())
        throw nb::index_error(("[" + std::to_string(first) + ", " + std::to_string(last) + ") is not in [0, " +
                               std::to_string(axis.output_size()) + ")").c_str());
    const std::size_t count = std::size_t(last - first);
    int64_t* data = new int64_t[count * 3];
    const nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<int64_t*>(pointer); });
    for (std::size_t i = 0; i < count; ++i) {
        const Range window = axis.window(first + int64_t(i));
        data[3 * i] = window.first, data[3 * i + 1] = window.last, data[3 * i + 2] = axis.divisor(first + int64_t(i));
    }
    return {data, {count, 3}, owner};
}

std::tuple<int64_t, int64_t> as_tuple(Range range) { return {range.first, range.last}; }

}  // namespace

NB_MODULE(_core, m) {
    nb::set_leak_warnings(false);  // cached tables live as long as the interpreter
    m.doc() = "Native core of poolgrad: window tables and kernels over C-contiguous CPU memory [outer, depth, height, width, inner].";

    nb::class_<Axis>(m, "Axis", "One pooled axis: its windows, their divisors and, seen from the input, their covers.")
        .def_static(
            "regular",
            [](int64_t input_size, int64_t output_size, int64_t window, int64_t stride, int64_t before, int64_t count_before,
               int64_t count_after, int64_t divisor, int64_t reach) {
                return Axis::regular({input_size, output_size, window, stride, before, count_before, count_after, divisor, reach});
            },
            "input_size"_a, "output_size"_a, "window"_a, "stride"_a, "before"_a, "count_before"_a = 0, "count_after"_a = 0,
            "divisor"_a = 0, "reach"_a = 0)
        .def_static(
            "listed",
            [](int64_t input_size, const Integers& start, const Integers& stop, const Integers& divisor, int64_t reach) {
                return Axis::listed(input_size, to_vector(start), to_vector(stop), to_vector(divisor), reach);
            },
            "input_size"_a, "start"_a, "stop"_a, "divisor"_a, "reach"_a = 0)
        .def_prop_ro("input_size", &Axis::input_size)
        .def_prop_ro("output_size", &Axis::output_size)
        .def_prop_ro("reach", &Axis::reach)
        .def_prop_ro("rule",
                     [](const Axis& axis) {
                         using Nine = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
                         const Rule* r = axis.rule();
                         return r ? std::optional<Nine>({r->input_size, r->output_size, r->window, r->stride, r->before,
                                                         r->count_before, r->count_after, r->divisor, r->reach})
                                  : std::nullopt;
                     })
        .def("window",
             [](const Axis& axis, int64_t output) {
                 check_index(output, axis.output_size(), "output");
                 return as_tuple(axis.window(output));
             },
             "output"_a)
        .def("divisor",
             [](const Axis& axis, int64_t output) {
                 check_index(output, axis.output_size(), "output");
                 return axis.divisor(output);
             },
             "output"_a)
        .def("cover",
             [](const Axis& axis, int64_t input) {
                 check_index(input, axis.input_size(), "input");
                 return as_tuple(axis.cover(input));
             },
             "input"_a)
        .def("windows", &windows, "first"_a, "last"_a)
        .def("part",
             [](const Axis& axis, int64_t first, int64_t last) {
                 if (first < 0 || last < first || last > axis.output_size())
                     throw nb::index_error(("[" + std::to_string(first) + ", " + std::to_string(last) + ") is not in [0, " +
                                            std::to_string(axis.output_size()) + ")").c_str());
                 Axis::Part part = axis.part(first, last);
                 return std::tuple<Axis, int64_t, int64_t>(std::move(part.axis), part.start, part.stop);
             },
             "first"_a, "last"_a);

    nb::class_<Table>(m, "Table", "The product of 1 to 3 axes.")
        .def(nb::init<const std::vector<Axis>&>(), "axes"_a)
        .def_prop_ro("input_size",
                     [](const Table& table) {
                         nb::list sizes;
                         for (std::size_t i = 3 - table.rank(); i < 3; ++i) sizes.append(table.axis(i).input_size());
                         return nb::tuple(sizes);
                     })
        .def_prop_ro("output_size",
                     [](const Table& table) {
                         nb::list sizes;
                         for (std::size_t i = 3 - table.rank(); i < 3; ++i) sizes.append(table.axis(i).output_size());
                         return nb::tuple(sizes);
                     })
        .def_prop_ro("winner_bytes", &Table::winner_bytes);

    // noconvert: a converted copy of a destination would be written and thrown away.
    const auto source = nb::arg("source").noconvert(), destination = nb::arg("destination").noconvert();
    const auto grad = nb::arg("grad").noconvert(), winners = nb::arg("winners").noconvert();
    const auto indices = nb::arg("indices").noconvert();
    m.def("avg_pool", &avg_pool, source, destination, "table"_a, "outer"_a, "inner"_a, "kind"_a, "workers"_a);
    m.def("mean_pool", &mean_pool, source, destination, "table"_a, "outer"_a, "inner"_a, "kind"_a, "destination_kind"_a, "workers"_a);
    m.def("avg_pool_grad", &avg_pool_grad, source, destination, "table"_a, "outer"_a, "inner"_a, "kind"_a, "workers"_a);
    m.def("max_pool", &max_pool, source, nb::arg("values").noconvert().none(), nb::arg("winners").noconvert().none(), "table"_a,
          "outer"_a, "inner"_a, "kind"_a, "minimum"_a, "workers"_a);
    m.def("max_pool_grad", &max_pool_grad, grad, winners, destination, "table"_a, "outer"_a, "inner"_a, "kind"_a, "workers"_a);
    m.def("max_pool_grad_from_input", &max_pool_grad_from_input, nb::arg("orig_input").noconvert(),
          nb::arg("orig_output").noconvert().none(), grad, destination, "table"_a, "outer"_a, "inner"_a, "kind"_a, "minimum"_a,
          "workers"_a);
    m.def("take_winners", &take_winners, source, winners, destination, "table"_a, "outer"_a, "inner"_a, "kind"_a, "workers"_a);
    m.def("scatter_indices", &scatter_indices, grad, indices, destination, "outer"_a, "count"_a, "size"_a, "kind"_a, "workers"_a);
    m.def("gather_indices", &gather_indices, source, indices, destination, "outer"_a, "count"_a, "size"_a, "kind"_a, "workers"_a);
    m.def("isa", [] { return kernels().name; });
    m.def("scratch_peak", &scratch_peak, "reset"_a);
    m.def("limit_copy", &limit_copy, source, destination, "read_bytes"_a, "write_bytes"_a, "streaming"_a, "workers"_a);
}
