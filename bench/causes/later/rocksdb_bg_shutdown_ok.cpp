/* correct twin of rocksdb_bg_shutdown: the flag is set and looked at under the lock under which jobs are counted */
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr int kWrites = 6;

class Pool {
public:
    Pool() : thread_([this] { Run(); }) {}

    ~Pool()
    {
        {
            std::lock_guard<std::mutex> l(mutex_);
            stop_ = true;
            changed_.notify_all();
        }
        thread_.join();
    }

    void Schedule(std::function<void()> job)
    {
        std::lock_guard<std::mutex> l(mutex_);
        jobs_.push_back(std::move(job));
        changed_.notify_all();
    }

private:
    void Run()
    {
        std::unique_lock<std::mutex> l(mutex_);
        for (;;) {
            changed_.wait(l, [this] { return stop_ || !jobs_.empty(); });
            if (jobs_.empty())
                return;
            auto job = std::move(jobs_.front());
            jobs_.pop_front();
            l.unlock();
            job();
            l.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> jobs_;
    bool stop_ = false;
    std::thread thread_;
};

struct FileSet {
    int compactions = 0;
    std::vector<int> files;
};

class DB {
public:
    explicit DB(Pool *pool) : pool_(pool), files_(new FileSet) {}

    void Write(int value)
    {
        {
            std::lock_guard<std::mutex> l(mutex_);
            memtable_.push_back(value);
            written_.notify_all();
        }
        MaybeSchedule();
    }

    void WaitWrites(size_t n)
    {
        std::unique_lock<std::mutex> l(mutex_);
        written_.wait(l, [this, n] { return memtable_.size() >= n; });
    }

    void Close()
    {
        std::unique_lock<std::mutex> l(mutex_);
        shutting_down_.store(true);
        idle_.wait(l, [this] { return scheduled_ == 0; });
        std::printf("%d compactions\n", files_->compactions);
        files_.reset();
    }

    size_t Size()
    {
        std::lock_guard<std::mutex> l(mutex_);
        return memtable_.size();
    }

private:
    void MaybeSchedule()
    {
        std::lock_guard<std::mutex> l(mutex_);
        if (shutting_down_.load() || scheduled_ > 0)
            return;
        scheduled_++;
        pool_->Schedule([this] { BackgroundCompaction(); });
    }

    void BackgroundCompaction()
    {
        FileSet *files = files_.get();
        files->compactions++;
        files->files.push_back(files->compactions);
        std::lock_guard<std::mutex> l(mutex_);
        if (--scheduled_ == 0)
            idle_.notify_all();
    }

    Pool *pool_;
    std::mutex mutex_;
    std::condition_variable written_, idle_;
    std::vector<int> memtable_;
    std::atomic<bool> shutting_down_{false};
    int scheduled_ = 0;
    std::unique_ptr<FileSet> files_;
};

} // namespace

int main()
{
    size_t size;
    {
        auto pool = std::make_unique<Pool>();
        DB db(pool.get());
        std::thread writer([&db] {
            for (int i = 0; i < kWrites; i++)
                db.Write(i);
        });
        db.WaitWrites(kWrites / 2);
        db.Close();
        writer.join();
        pool.reset();
        size = db.Size();
    }
    std::printf("%zu writes\n", size);
    return size != kWrites;
}
