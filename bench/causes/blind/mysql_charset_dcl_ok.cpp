/* Twin of mysql_charset_dcl: the flag is set after the table is filled. */
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

class Charsets {
public:
    int Upper(int c)
    {
        if (!initialized_.load(std::memory_order_acquire))
            Init();
        lookups_.fetch_add(1);
        return to_upper_[c & 31];
    }

    int Lookups() const { return lookups_.load(); }
    int Inits() const { return inits_; }

private:
    void Init()
    {
        std::lock_guard<std::mutex> l(lock_);
        if (initialized_.load(std::memory_order_relaxed))
            return;
        inits_++;
        for (int i = 0; i < 32; i++)
            to_upper_[i] = 'A' - 1 + i;
        initialized_.store(true, std::memory_order_release);
    }

    std::mutex lock_;
    std::atomic<bool> initialized_{false};
    std::atomic<int> lookups_{0};
    int inits_ = 0;
    int to_upper_[32] = {};
};

int main()
{
    Charsets cs;
    std::atomic<int> wrong(0);
    const char *words[3] = { "utf", "latin", "koi" };
    std::thread t[3];
    for (int i = 0; i < 3; i++)
        t[i] = std::thread([&cs, &wrong, w = words[i]] {
            for (const char *p = w; *p; p++)
                if (cs.Upper(*p) != *p - 32)
                    wrong++;
        });
    for (std::thread &x : t)
        x.join();
    std::printf("%d lookups, %d wrong\n", cs.Lookups(), wrong.load());
    return wrong.load() != 0 || cs.Inits() != 1;
}
