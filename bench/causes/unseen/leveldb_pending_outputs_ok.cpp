/* correct twin of leveldb_pending_outputs: a file number is pending from its birth to its install */
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kCompactors = 2;
constexpr int kRounds = 3;

class Env {
public:
    void WriteFile(int number, const std::string &data)
    {
        std::lock_guard<std::mutex> l(mutex_);
        files_[number] = data;
    }
    bool ReadFile(int number, std::string *data)
    {
        std::lock_guard<std::mutex> l(mutex_);
        auto it = files_.find(number);
        if (it == files_.end())
            return false;
        *data = it->second;
        return true;
    }
    void DeleteFile(int number)
    {
        std::lock_guard<std::mutex> l(mutex_);
        files_.erase(number);
    }
    std::vector<int> GetChildren()
    {
        std::lock_guard<std::mutex> l(mutex_);
        std::vector<int> v;
        for (auto &f : files_)
            v.push_back(f.first);
        return v;
    }

private:
    std::mutex mutex_;
    std::map<int, std::string> files_;
};

Env env;
std::mutex db_mutex;
int next_file = 1;
std::set<int> live;
std::set<int> pending_outputs;

int Compact(int input)
{
    int number;
    {
        std::lock_guard<std::mutex> l(db_mutex);
        number = next_file++;
        pending_outputs.insert(number);
    }
    std::string data;
    if (input && !env.ReadFile(input, &data))
        data = "(lost)";
    env.WriteFile(number, data + "+");
    std::lock_guard<std::mutex> l(db_mutex);
    live.insert(number);
    live.erase(input);
    pending_outputs.erase(number);
    return number;
}

void DeleteObsoleteFiles()
{
    std::vector<int> found = env.GetChildren();
    for (int number : found) {
        std::lock_guard<std::mutex> l(db_mutex);
        if (!live.count(number) && !pending_outputs.count(number))
            env.DeleteFile(number);
    }
}

void Compactor()
{
    int file = 0;
    for (int i = 0; i < kRounds; i++)
        file = Compact(file);
}

void Cleaner()
{
    for (int i = 0; i < kRounds; i++) {
        DeleteObsoleteFiles();
        std::this_thread::yield();
    }
}

int Verify()
{
    int missing = 0;
    for (int number : live) {
        std::string data;
        if (!env.ReadFile(number, &data) || data != std::string(kRounds, '+')) {
            std::printf("table %d holds '%s'\n", number, data.c_str());
            missing++;
        }
    }
    return missing;
}

} // namespace

int main()
{
    std::thread a(Compactor), b(Compactor), c(Cleaner);
    a.join();
    b.join();
    c.join();
    DeleteObsoleteFiles();
    if (Verify() || (int)live.size() != kCompactors)
        return 1;
    std::printf("%zu tables\n", env.GetChildren().size());
    return 0;
}
