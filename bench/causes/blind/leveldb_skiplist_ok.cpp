/* Twin of leveldb_skiplist: the node's next pointer is set before the node is linked. */
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

struct Node {
    int key;
    std::atomic<Node *> next;
    explicit Node(int k = 0) : key(k), next(nullptr) {}
};

class MemTable {
public:
    MemTable() : used_(0) {}

    void Insert(int key)
    {
        std::lock_guard<std::mutex> l(mu_);
        Node *n = &arena_[used_++];
        n->key = key;
        Node *prev = &head_;
        Node *succ = prev->next.load();
        while (succ && succ->key < key) {
            prev = succ;
            succ = prev->next.load();
        }
        n->next.store(succ);
        prev->next.store(n);
    }

    int Count(int lo, int hi)
    {
        int n = 0;
        for (Node *p = head_.next.load(); p; p = p->next.load())
            if (p->key >= lo && p->key < hi)
                n++;
        return n;
    }

private:
    Node head_;
    Node arena_[12];
    int used_;
    std::mutex mu_;
};

int main()
{
    MemTable mem;
    std::atomic<int> lost(0);
    for (int k = 50; k < 54; k++)
        mem.Insert(k);
    std::thread writer([&] {
        for (int k = 30; k > 24; k -= 2)
            mem.Insert(k);
    });
    std::thread writer2([&] { mem.Insert(40); });
    std::thread reader([&] {
        for (int i = 0; i < 3; i++)
            if (mem.Count(50, 60) != 4)
                lost++;
    });
    writer.join();
    writer2.join();
    reader.join();
    std::printf("%d keys, lost in %d scans\n", mem.Count(0, 100), lost.load());
    return lost.load() != 0 || mem.Count(0, 100) != 8;
}
