/* correct twin of base_dtor_thread: the derived destructor joins the thread */
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr int kJobs = 5;

class Service {
public:
    Service() = default;
    virtual ~Service() { Stop(); }

    void Start() { thread_ = std::thread(&Service::Run, this); }

    void Post(int job)
    {
        std::lock_guard<std::mutex> l(mutex_);
        jobs_.push_back(job);
        open_++;
        changed_.notify_all();
    }

    void WaitDone()
    {
        std::unique_lock<std::mutex> l(mutex_);
        changed_.wait(l, [this] { return open_ == 0; });
    }

protected:
    virtual void Handle(int job) = 0;
    virtual void Idle() = 0;

    void Stop()
    {
        {
            std::lock_guard<std::mutex> l(mutex_);
            stop_ = true;
            changed_.notify_all();
        }
        if (thread_.joinable())
            thread_.join();
    }

private:
    void Run()
    {
        std::unique_lock<std::mutex> l(mutex_);
        for (;;) {
            changed_.wait(l, [this] { return stop_ || !jobs_.empty(); });
            if (jobs_.empty())
                return;
            int job = jobs_.front();
            jobs_.pop_front();
            l.unlock();
            Handle(job);
            l.lock();
            if (--open_ == 0) {
                changed_.notify_all();
                l.unlock();
                Idle();
                l.lock();
            }
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<int> jobs_;
    int open_ = 0;
    bool stop_ = false;
    std::thread thread_;
};

class Resolver : public Service {
public:
    explicit Resolver(int *out) : out_(out) {}
    ~Resolver() override
    {
        Stop();
        *out_ = (int)cache_.size();
    }

private:
    void Handle(int job) override { cache_.push_back(job * job); }
    void Idle() override { idles_++; }

    int *out_;
    int idles_ = 0;
    std::vector<int> cache_;
};

unsigned Summary(int n)
{
    unsigned h = 1;
    for (int i = 0; i < 300 * n; i++)
        h = h * 1103515245u + 12345u;
    return h;
}

} // namespace

int main()
{
    int resolved = 0;
    {
        Resolver r(&resolved);
        r.Start();
        for (int i = 0; i < kJobs; i++)
            r.Post(i);
        r.WaitDone();
        std::printf("summary %u\n", Summary(kJobs));
    }
    std::printf("%d resolved\n", resolved);
    return resolved != kJobs;
}
