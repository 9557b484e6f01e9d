/* correct twin of gdb_cooked_index: before the section is unmapped the object file waits until the worker has written the index cache */
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>

enum class cooked_state { INITIAL, MAIN_AVAILABLE, FINALIZED, CACHE_DONE };

constexpr size_t section_size = 4096;

class cooked_index {
public:
    void set(cooked_state state) {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            state_ = state;
        }
        cond_.notify_all();
    }

    void wait(cooked_state desired) {
        std::unique_lock<std::mutex> guard(mutex_);
        cond_.wait(guard, [&] { return state_ >= desired; });
    }

    // only after FINALIZED
    int find(const std::string &name) const {
        auto it = entries_.find(name);
        return it == entries_.end() ? -1 : it->second;
    }

    void start_reading(const char *section) {
        const char *p = section;
        for (int offset = 0; *p; offset++) {
            entries_[p] = offset;
            p += std::strlen(p) + 1;
        }
        set(cooked_state::FINALIZED);
        write_to_cache(section);
        set(cooked_state::CACHE_DONE);
    }

    unsigned cache_id() const { return cache_id_; }

private:
    void write_to_cache(const char *section) {
        unsigned id = 5381;
        for (size_t i = 0; i < 32; i++)
            id = id * 33 + static_cast<unsigned char>(section[i]);
        cache_id_ = id;
    }

    std::mutex mutex_;
    std::condition_variable cond_;
    cooked_state state_ = cooked_state::INITIAL;
    std::map<std::string, int> entries_;
    unsigned cache_id_ = 0;
};

class objfile {
public:
    objfile(std::shared_ptr<cooked_index> index, const char *names, size_t size) : index_(std::move(index)) {
        void *p = mmap(nullptr, section_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            std::exit(2);
        section_ = static_cast<char *>(p);
        std::memcpy(section_, names, size);
    }

    ~objfile() {
        index_->wait(cooked_state::CACHE_DONE);
        munmap(section_, section_size);
    }

    const char *section() const { return section_; }

    int lookup(const std::string &name) {
        index_->wait(cooked_state::FINALIZED);
        return index_->find(name);
    }

private:
    std::shared_ptr<cooked_index> index_;
    char *section_;
};

static std::thread read_symbols(std::shared_ptr<cooked_index> index, const objfile &objf) {
    return std::thread([index, section = objf.section()] { index->start_reading(section); });
}

int main() {
    static const char program_names[] = "main\0print_frame\0value_as_long\0";
    static const char library_names[] = "abort\0exit\0";
    auto index = std::make_shared<cooked_index>(), library_index = std::make_shared<cooked_index>();
    objfile library(library_index, library_names, sizeof library_names);
    std::thread worker, library_worker;
    int symbol;
    {
        objfile program(index, program_names, sizeof program_names);
        worker = read_symbols(index, program);
        library_worker = read_symbols(library_index, library);
        symbol = program.lookup("print_frame");
        std::printf("print_frame is symbol %d\n", symbol);
        std::fflush(stdout);
    }
    worker.join();
    library_worker.join();
    std::printf("index cache %08x\n", index->cache_id());
    return symbol == 1 && library.lookup("exit") == 1 ? 0 : 1;
}
