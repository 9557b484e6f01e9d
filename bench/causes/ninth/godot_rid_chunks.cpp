/* class: use after free (unlocked read of a growing table); fails by: crash or failed check; cause: a reader has loaded the pointer to the chunk table when another thread makes a new table and frees the old one, and the reader then looks up its chunk in the freed table */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

typedef uint64_t RID;

template <class T> class RID_Owner {
public:
    enum { PER_CHUNK = 2 };

    RID make_rid(const T &value) {
        std::lock_guard<std::mutex> g(spin_lock);
        if (alloc_count == max_alloc)
            grow();
        uint32_t index = alloc_count++;
        Slot &s = chunks.load()[index / PER_CHUNK][index % PER_CHUNK];
        s.data = value;
        s.validator = ++last_validator;
        return ((uint64_t)s.validator << 32) | index;
    }

    T *get_or_null(RID rid) {
        uint32_t index = (uint32_t)rid;
        Slot **table = chunks.load(); // CAUSE
        uint32_t chunk = index / PER_CHUNK;
        if (index >= max_alloc.load())
            return nullptr;
        Slot *s = &table[chunk][index % PER_CHUNK]; // CAUSE
        return s->validator == (uint32_t)(rid >> 32) ? &s->data : nullptr;
    }

    ~RID_Owner() {
        Slot **table = chunks.load();
        for (uint32_t i = 0; i < max_alloc / PER_CHUNK; i++)
            delete[] table[i];
        delete[] table;
    }

private:
    struct Slot {
        T data;
        uint32_t validator = 0;
    };

    void grow() {
        uint32_t n = max_alloc / PER_CHUNK;
        Slot **old = chunks.load(), **table = new Slot *[n + 1];
        for (uint32_t i = 0; i < n; i++)
            table[i] = old[i];
        table[n] = new Slot[PER_CHUNK];
        chunks.store(table);
        max_alloc.store((n + 1) * PER_CHUNK);
        for (uint32_t i = 0; i < n; i++)
            const_cast<Slot *volatile *>(old)[i] = nullptr; // CAUSE
        delete[] old; // CAUSE
    }

    std::mutex spin_lock;
    std::atomic<Slot **> chunks{nullptr};
    std::atomic<uint32_t> max_alloc{0};
    uint32_t alloc_count = 0, last_validator = 0;
};

struct Texture {
    int width = 0, height = 0;
};

static RID_Owner<Texture> textures;
static std::vector<RID> loaded;

static void load_thread(std::vector<RID> *made) {
    for (int i = 0; i < 8; i++) {
        Texture t;
        t.width = 64 << (i % 3);
        t.height = 32;
        made->push_back(textures.make_rid(t));
    }
}

static void render_thread(int *drawn, int *missing) {
    for (int frame = 0; frame < 3; frame++) {
        for (size_t i = 0; i < loaded.size(); i++) {
            Texture *t = textures.get_or_null(loaded[i]);
            if (t && t->width == 16 + (int)i && t->height == 8)
                ++*drawn;
            else
                ++*missing;
        }
    }
}

int main() {
    std::vector<RID> made;
    int drawn = 0, missing = 0;
    for (int i = 0; i < 6; i++) {
        Texture t;
        t.width = 16 + i;
        t.height = 8;
        loaded.push_back(textures.make_rid(t));
    }
    std::thread loader(load_thread, &made), renderer(render_thread, &drawn, &missing);
    loader.join();
    renderer.join();
    for (RID r : made)
        if (!textures.get_or_null(r))
            missing++;
    printf("%d textures drawn, %d missing\n", drawn, missing);
    return drawn == 18 && missing == 0 ? 0 : 1;
}
