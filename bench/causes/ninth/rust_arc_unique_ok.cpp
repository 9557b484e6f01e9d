/* correct twin of rust_arc_unique: the weak count is locked while the strong count is looked at, new weak references wait meanwhile */
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

static const size_t WEAK_LOCKED = ~(size_t)0;

struct Style {
    int generation = 0;
    int width[4] = {0, 0, 0, 0};
};

struct Inner {
    std::atomic<size_t> strong{1};
    std::atomic<size_t> weak{1}; /* all strong references together hold one */
    Style data;
};

static void drop_weak(Inner *p) {
    if (p->weak.fetch_sub(1) == 1)
        delete p;
}

class Arc {
public:
    Arc() : p_(nullptr) {}
    explicit Arc(const Style &s) : p_(new Inner) { p_->data = s; }
    explicit Arc(Inner *p) : p_(p) {}
    Arc(Arc &&o) : p_(o.p_) { o.p_ = nullptr; }
    Arc &operator=(Arc &&o) {
        reset();
        p_ = o.p_;
        o.p_ = nullptr;
        return *this;
    }
    ~Arc() { reset(); }
    void reset() {
        Inner *p = p_;
        p_ = nullptr;
        if (p && p->strong.fetch_sub(1) == 1)
            drop_weak(p);
    }
    explicit operator bool() const { return p_ != nullptr; }
    const Style &get() const { return p_->data; }
    Inner *downgrade() const {
        size_t n = p_->weak.load();
        for (;;) {
            if (n == WEAK_LOCKED) {
                std::this_thread::yield();
                n = p_->weak.load();
            } else if (p_->weak.compare_exchange_weak(n, n + 1)) {
                return p_;
            }
        }
    }
    Style *get_mut() { return is_unique() ? &p_->data : nullptr; }
    Style *make_mut() {
        Style *s = get_mut();
        if (!s) {
            *this = Arc(p_->data);
            s = &p_->data;
        }
        return s;
    }

private:
    bool is_unique() {
        size_t one = 1;
        if (!p_->weak.compare_exchange_strong(one, WEAK_LOCKED))
            return false;
        bool unique = p_->strong.load() == 1;
        p_->weak.store(1);
        return unique;
    }
    Inner *p_;
};

static Arc upgrade(Inner *p) {
    size_t n = p->strong.load();
    do {
        if (n == 0)
            return Arc();
    } while (!p->strong.compare_exchange_weak(n, n + 1));
    return Arc(p);
}

enum { NODES = 4 };

static Arc style[NODES];
static Inner *observed[NODES];
static Arc kept[NODES];
static int kept_generation[NODES];
static int restyled, painted;

static void restyle() {
    for (int i = 0; i < NODES; i++) {
        Style *s = style[i].make_mut();
        s->generation++;
        for (int w = 0; w < 4; w++)
            s->width[w] += i + w;
        restyled++;
    }
}

static void paint() {
    for (int i = 0; i < NODES; i++) {
        kept[i] = upgrade(observed[i]);
        if (kept[i]) {
            kept_generation[i] = kept[i].get().generation;
            painted++;
        }
        drop_weak(observed[i]);
    }
}

int main() {
    int changed = 0;
    for (int i = 0; i < NODES; i++) {
        style[i] = Arc(Style());
        observed[i] = style[i].downgrade();
    }
    std::thread painter(paint), layout(restyle);
    painter.join();
    layout.join();
    for (int i = 0; i < NODES; i++) {
        if (kept[i] && kept[i].get().generation != kept_generation[i]) {
            fprintf(stderr, "style of node %d changed under its reader\n", i);
            changed++;
        }
    }
    printf("%d restyled, %d painted\n", restyled, painted);
    return restyled == NODES && changed == 0 ? 0 : 1;
}
