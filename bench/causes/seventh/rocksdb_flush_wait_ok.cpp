/* repaired twin of rocksdb_flush_wait.cpp */
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct MutableOptions {
    size_t write_buffer_size = 4;
    int level0_trigger = 2;
};

class DBImpl {
    std::mutex options_mutex_;
    MutableOptions options_;

    std::mutex mutex_;
    std::condition_variable bg_cv_, flush_cv_;
    std::map<std::string, int> mem_;
    std::deque<std::map<std::string, int>> imm_;
    std::vector<size_t> files_;
    bool flush_running_ = false, closing_ = false;
    int installed_ = 0;

    MutableOptions CopyOptions() {
        std::lock_guard<std::mutex> g(options_mutex_);
        return options_;
    }

    size_t WriteTable(const std::map<std::string, int> &table) {
        MutableOptions o = CopyOptions();
        size_t bytes = 0;
        for (auto &kv : table)
            bytes += kv.first.size() + sizeof kv.second;
        return o.write_buffer_size ? bytes : 0;
    }

    void WaitForFlush() {
        std::unique_lock<std::mutex> l(mutex_);
        while (flush_running_)
            bg_cv_.wait(l);
        installed_++;
    }

public:
    void Put(const std::string &key, int value) {
        size_t limit = CopyOptions().write_buffer_size;
        std::lock_guard<std::mutex> l(mutex_);
        mem_[key] = value;
        if (mem_.size() >= limit) {
            imm_.push_back(std::move(mem_));
            mem_.clear();
            flush_cv_.notify_one();
        }
    }

    void SetOptions(size_t write_buffer_size, int trigger) {
        {
            std::lock_guard<std::mutex> g(options_mutex_);
            options_.write_buffer_size = write_buffer_size;
            options_.level0_trigger = trigger;
        }
        WaitForFlush();
    }

    void BackgroundFlush() {
        std::unique_lock<std::mutex> l(mutex_);
        for (;;) {
            while (imm_.empty() && !closing_)
                flush_cv_.wait(l);
            if (imm_.empty())
                return;
            std::map<std::string, int> table = std::move(imm_.front());
            imm_.pop_front();
            flush_running_ = true;
            l.unlock();
            size_t bytes = WriteTable(table);
            l.lock();
            files_.push_back(bytes);
            flush_running_ = false;
            bg_cv_.notify_all();
        }
    }

    void Close() {
        std::lock_guard<std::mutex> l(mutex_);
        closing_ = true;
        flush_cv_.notify_all();
    }

    size_t Entries() {
        std::lock_guard<std::mutex> l(mutex_);
        size_t bytes = 0;
        for (size_t f : files_)
            bytes += f;
        return bytes / (3 + sizeof(int)) + mem_.size();
    }
    int installed() {
        std::lock_guard<std::mutex> l(mutex_);
        return installed_;
    }
};

int main() {
    DBImpl db;
    std::thread flusher([&] { db.BackgroundFlush(); });
    std::thread admin([&] {
        for (int i = 0; i < 2; i++) {
            db.SetOptions(3 + static_cast<size_t>(i), i);
        }
    });
    std::thread writer([&] {
        for (int i = 0; i < 12; i++)
            db.Put("k" + std::to_string(10 + i), i);
    });
    writer.join();
    admin.join();
    db.Close();
    flusher.join();
    std::printf("entries %zu options %d\n", db.Entries(), db.installed());
    return db.Entries() == 12 && db.installed() == 2 ? 0 : 1;
}
