/* correct twin of go_waitgroup_add: the coordinator counts the crawlers in before it starts them */
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <semaphore.h>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kCrawlers = 3;
constexpr int kPages = 4;

std::mutex mutex;
std::condition_variable changed;
int active;
std::map<std::string, int> pages;
sem_t ready;

int Fetch(const std::string &url)
{
    int words = 0;
    for (char c : url)
        words = (words * 7 + c) % 500;
    return words + 1;
}

void Crawl(int site)
{
    std::vector<std::string> urls;
    for (int p = 0; p < kPages; p++)
        urls.push_back("site" + std::to_string(site) + "/page" + std::to_string(p));
    sem_post(&ready);
    for (const auto &url : urls) {
        int words = Fetch(url);
        std::lock_guard<std::mutex> l(mutex);
        pages[url] = words;
    }
    std::lock_guard<std::mutex> l(mutex);
    if (--active == 0)
        changed.notify_all();
}

/* the number of words on all pages that have been fetched */
int BuildIndex(size_t *count)
{
    std::lock_guard<std::mutex> l(mutex);
    int words = 0;
    for (const auto &page : pages)
        words += page.second;
    *count = pages.size();
    return words;
}

} // namespace

int main()
{
    std::vector<std::thread> crawlers;
    sem_init(&ready, 0, 0);
    active = kCrawlers;
    for (int i = 0; i < kCrawlers; i++)
        crawlers.emplace_back(Crawl, i);
    for (int i = 0; i < kCrawlers; i++)
        while (sem_wait(&ready) != 0)
            ;
    {
        std::unique_lock<std::mutex> l(mutex);
        changed.wait(l, [] { return active == 0; });
    }
    size_t count;
    int words = BuildIndex(&count);
    for (auto &c : crawlers)
        c.join();
    std::printf("%zu pages of %d, %d words\n", count, kCrawlers * kPages, words);
    return count != size_t(kCrawlers * kPages);
}
