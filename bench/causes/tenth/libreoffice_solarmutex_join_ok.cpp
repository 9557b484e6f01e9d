/* correct twin of libreoffice_solarmutex_join: dispose gives up the SolarMutex while it waits for the end of the thread */
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static std::mutex theSolarMutex;

class SolarMutexGuard {
public:
    SolarMutexGuard() {
        theSolarMutex.lock();
    }
    ~SolarMutexGuard() { theSolarMutex.unlock(); }
    SolarMutexGuard(const SolarMutexGuard &) = delete;
    SolarMutexGuard &operator=(const SolarMutexGuard &) = delete;
};

class SolarMutexReleaser {
public:
    SolarMutexReleaser() { theSolarMutex.unlock(); }
    ~SolarMutexReleaser() { theSolarMutex.lock(); }
    SolarMutexReleaser(const SolarMutexReleaser &) = delete;
    SolarMutexReleaser &operator=(const SolarMutexReleaser &) = delete;
};

struct Document {
    std::vector<std::string> paragraphs{"He go home.", "All is well.", "They was here."};
    std::vector<size_t> marked; // guarded by the SolarMutex
};

class GrammarChecker {
public:
    explicit GrammarChecker(Document &doc) : doc_(doc), text_(doc.paragraphs) {}

    void launch() {
        thread_ = std::thread([this] { execute(); });
    }

    // all paragraphs have been looked at, what is left is to mark them
    void waitUntilChecked() {
        std::unique_lock<std::mutex> guard(mutex_);
        checkedCond_.wait(guard, [this] { return checked_ == text_.size(); });
    }

    // called with the SolarMutex held
    size_t dispose() {
        {
            SolarMutexReleaser releaser;
            thread_.join();
        }
        return doc_.marked.size();
    }

private:
    void execute() {
        std::vector<size_t> faulty;
        for (size_t i = 0; i < text_.size(); i++) {
            bool bad = text_[i].find("He go") == 0 || text_[i].find("They was") == 0;
            if (bad)
                faulty.push_back(i);
            std::lock_guard<std::mutex> guard(mutex_);
            checked_++;
            checkedCond_.notify_one();
        }
        SolarMutexGuard solar;
        doc_.marked = faulty;
    }

    Document &doc_;
    const std::vector<std::string> text_;
    std::mutex mutex_;
    std::condition_variable checkedCond_;
    size_t checked_ = 0;
    std::thread thread_;
};

int main() {
    Document doc;
    GrammarChecker checker(doc);
    checker.launch();
    checker.waitUntilChecked();
    size_t marked;
    {
        SolarMutexGuard solar;
        doc.paragraphs.push_back("The end.");
        marked = checker.dispose();
    }
    std::printf("%zu of %zu paragraphs marked\n", marked, doc.paragraphs.size());
    return marked == 2 ? 0 : 1;
}
