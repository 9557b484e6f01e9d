/* correct twin of pybind11_static_gil: the GIL is released before the once and taken back inside it, so no thread waits for the once with the GIL held */
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class Interpreter {
    std::mutex gil_;

public:
    std::map<std::string, int> modules;
    unsigned switches = 0, calls = 0;
    void acquire() {
        gil_.lock();
        switches++;
    }
    void release() { gil_.unlock(); }
};

static Interpreter py;

struct gil_scoped_acquire {
    gil_scoped_acquire() { py.acquire(); }
    ~gil_scoped_acquire() { py.release(); }
};

struct gil_scoped_release {
    gil_scoped_release() { py.release(); }
    ~gil_scoped_release() { py.acquire(); }
};

struct TypeInfo {
    std::string name;
    std::vector<std::string> fields;
    size_t itemsize;
};

static std::mutex file_lock;
static std::map<std::string, std::vector<std::string>> files = {
    {"numpy.core", {"dtype", "ndarray", "ufunc"}},
    {"numpy.core.multiarray", {"dtype", "shape", "strides", "data"}},
};

static std::vector<std::string> import_module(const std::string &name) {
    std::vector<std::string> names;
    {
        gil_scoped_release nogil;
        std::lock_guard<std::mutex> g(file_lock);
        auto it = files.find(name);
        if (it != files.end())
            names = it->second;
    }
    py.modules[name]++;
    return names;
}

static TypeInfo *make_dtype_info() {
    TypeInfo *t = new TypeInfo;
    t->name = "dtype";
    t->fields = import_module("numpy.core.multiarray");
    t->itemsize = t->fields.size() * 8;
    return t;
}

static TypeInfo &dtype_info() {
    static std::once_flag once;
    static TypeInfo *info;
    gil_scoped_release nogil;
    std::call_once(once, [] {
        gil_scoped_acquire gil;
        info = make_dtype_info();
    });
    return *info;
}

static size_t array_nbytes(size_t n) {
    TypeInfo &t = dtype_info();
    py.calls++;
    return n * t.itemsize;
}

static void load_array(size_t *total) {
    for (size_t n = 1; n <= 3; n++) {
        gil_scoped_acquire gil;
        *total += array_nbytes(n);
    }
}

static void run_callbacks(size_t *total) {
    std::vector<std::string> names;
    for (int i = 0; i < 4; i++) {
        gil_scoped_acquire gil;
        names = import_module("numpy.core");
        *total += names.size();
    }
    gil_scoped_acquire gil;
    *total += array_nbytes(names.size());
}

int main() {
    size_t loaded = 0, called = 0;
    std::thread callbacks(run_callbacks, &called);
    load_array(&loaded);
    callbacks.join();
    std::printf("loaded %zu called %zu, %u calls\n", loaded, called, py.calls);
    return loaded == 6 * 32 && called == 12 + 3 * 32 && py.calls == 4 && py.modules["numpy.core.multiarray"] == 1 ? 0 : 1;
}
