/* class: atomicity violation (container grown by two threads without a lock); fails by: wrong result; cause: two threads put into the map at once, both rebuild its table from the same chains and each publishes its own, so entries are lost or linked in a ring */
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Session {
    std::string user;
    unsigned hits = 0;
};

struct Entry {
    const unsigned key;
    Session *value;
    Entry *next;
};

class HashMap {
    struct Table {
        const unsigned length;
        std::unique_ptr<Entry *[]> slot;
        explicit Table(unsigned n) : length(n), slot(new Entry *[n]()) {}
    };
    Table *table_;
    unsigned size_ = 0;
    std::vector<std::unique_ptr<Table>> tables_;
    std::vector<Table *> spare_;
    std::mutex alloc_;

    static unsigned index_for(unsigned h, const Table *t) { return (h ^ h >> 4) & (t->length - 1); }
    Table *new_table(unsigned n) {
        std::lock_guard<std::mutex> g(alloc_);
        if (!spare_.empty() && spare_.back()->length == n) {
            Table *t = spare_.back();
            spare_.pop_back();
            return t;
        }
        tables_.emplace_back(new Table(n));
        return tables_.back().get();
    }
    void transfer(const Table *from, Table *to) {
        for (unsigned j = 0; j < from->length; j++) {
            for (Entry *e = from->slot[j]; e;) {
                Entry *next = e->next; // CAUSE
                unsigned i = index_for(e->key, to);
                e->next = to->slot[i]; // CAUSE
                to->slot[i] = e;
                e = next;
            }
        }
    }
    Table *resize(const Table *old) {
        Table *to = new_table(old->length * 2);
        transfer(old, to);
        return table_ = to; // CAUSE
    }

public:
    explicit HashMap(unsigned n) {
        table_ = new_table(n);
        Table *a = new_table(n * 2), *b = new_table(n * 2);
        spare_ = {a, b};
    }
    void put(Entry *e) {
        Table *t = table_; // CAUSE
        if (size_ >= t->length * 3 / 4) // CAUSE
            t = resize(t);
        unsigned i = index_for(e->key, t);
        e->next = t->slot[i];
        t->slot[i] = e;
        size_++;
    }
    Session *get(unsigned key) const {
        unsigned steps = 0;
        for (Entry *e = table_->slot[index_for(key, table_)]; e && steps < 64; e = e->next, steps++)
            if (e->key == key)
                return e->value;
        return nullptr;
    }
    unsigned capacity() const { return table_->length; }
};

int main() {
    enum { START = 6, EACH = 2, WORKERS = 2, ALL = START + EACH * WORKERS };
    HashMap sessions(8);
    std::vector<std::unique_ptr<Session>> pool;
    std::vector<std::unique_ptr<Entry>> entries;
    std::mutex access_log;
    unsigned logged = 0, lost = 0;
    for (unsigned i = 0; i < ALL; i++) {
        pool.emplace_back(new Session{"user" + std::to_string(i)});
        entries.emplace_back(new Entry{i * 5 + 1, pool[i].get(), nullptr});
    }
    for (unsigned i = 0; i < START; i++)
        sessions.put(entries[i].get());
    std::vector<std::thread> workers;
    for (unsigned w = 0; w < WORKERS; w++)
        workers.emplace_back([&, w] {
            for (unsigned i = 0; i < EACH; i++) {
                Entry *e = entries[START + w * EACH + i].get();
                e->value->hits++;
                sessions.put(e);
                std::lock_guard<std::mutex> g(access_log);
                logged++;
            }
        });
    for (auto &t : workers)
        t.join();
    for (auto &e : entries) {
        Session *s = sessions.get(e->key);
        if (s != e->value)
            lost++;
    }
    if (lost)
        std::fprintf(stderr, "%u sessions are not in the map\n", lost);
    std::printf("logged %u, capacity %u\n", logged, sessions.capacity());
    return lost == 0 && logged == EACH * WORKERS ? 0 : 1;
}
