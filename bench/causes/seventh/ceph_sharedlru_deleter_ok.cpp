/* repaired twin of ceph_sharedlru_deleter.cpp */
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

class ObjectContext {
    std::mutex lock_;
    std::vector<int> ops_;

public:
    const int oid;
    explicit ObjectContext(int o) : oid(o) {}
    int apply(int op) {
        std::lock_guard<std::mutex> g(lock_);
        ops_.push_back(op);
        int sum = 0;
        for (int o : ops_)
            sum += o;
        return sum;
    }
};

class SharedLRU {
    using VPtr = std::shared_ptr<ObjectContext>;
    using WeakVPtr = std::weak_ptr<ObjectContext>;
    struct Entry {
        WeakVPtr weak;
        ObjectContext *raw;
    };
    std::mutex lock_;
    std::map<int, Entry> weak_refs_;
    unsigned created_ = 0, removed_ = 0;

    void remove(int key, ObjectContext *val) {
        std::lock_guard<std::mutex> g(lock_);
        auto i = weak_refs_.find(key);
        if (i != weak_refs_.end() && i->second.raw == val)
            weak_refs_.erase(i);
        removed_++;
    }

    struct Cleanup {
        SharedLRU *cache;
        int key;
        void operator()(ObjectContext *ptr) const {
            cache->remove(key, ptr);
            delete ptr;
        }
    };

public:
    VPtr lookup_or_create(int key) {
        std::lock_guard<std::mutex> g(lock_);
        auto i = weak_refs_.find(key);
        if (i != weak_refs_.end()) {
            VPtr p = i->second.weak.lock();
            if (p)
                return p;
        }
        ObjectContext *raw = new ObjectContext(key);
        VPtr p(raw, Cleanup{this, key});
        weak_refs_[key] = Entry{p, raw};
        created_++;
        return p;
    }
    bool balanced() {
        std::lock_guard<std::mutex> g(lock_);
        std::printf("created %u removed %u left %zu\n", created_, removed_, weak_refs_.size());
        return created_ == removed_ && weak_refs_.empty();
    }
};

struct Shard {
    SharedLRU *cache;
    int id, rounds;
    int splits = 0;
    long total = 0;

    void process() {
        for (int r = 0; r < rounds; r++) {
            int oid = (r + id) % 2;
            auto ctx = cache->lookup_or_create(oid);
            total += ctx->apply(r);
            auto again = cache->lookup_or_create(oid);
            if (again != ctx)
                splits++;
            total += again->apply(id);
        }
    }
};

int main() {
    SharedLRU object_contexts;
    std::vector<Shard> shards;
    std::vector<std::thread> threads;
    int splits = 0;
    for (int i = 0; i < 3; i++)
        shards.push_back(Shard{&object_contexts, i, 5});
    for (auto &s : shards)
        threads.emplace_back(&Shard::process, &s);
    for (auto &t : threads)
        t.join();
    for (auto &s : shards)
        splits += s.splits;
    bool ok = object_contexts.balanced();
    if (splits) {
        std::printf("%d times two live contexts of one object\n", splits);
        return 1;
    }
    return ok ? 0 : 1;
}
