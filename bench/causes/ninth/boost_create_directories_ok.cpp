/* correct twin of boost_create_directories: an error of mkdir is none if the directory is there afterwards */
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace fs {

static bool is_directory(const std::string &p) {
    struct stat st;
    return stat(p.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

static std::string parent_path(const std::string &p) {
    size_t slash = p.rfind('/');
    return slash == std::string::npos || slash == 0 ? "/" : p.substr(0, slash);
}

static void create_directory(const std::string &p) {
    if (mkdir(p.c_str(), 0755) != 0 && (errno != EEXIST || !is_directory(p)))
        throw std::runtime_error("create_directory: " + p + ": " + strerror(errno));
}

static void create_directories(const std::string &p) {
    if (p == "/" || is_directory(p))
        return;
    create_directories(parent_path(p));
    create_directory(p);
}

} // namespace fs

class DiskCache {
public:
    explicit DiskCache(const std::string &root) : root_(root) {}

    void store(const std::string &key, const std::string &value) {
        std::string path = path_of(key);
        fs::create_directories(fs::parent_path(path));
        int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
        if (fd < 0)
            throw std::runtime_error("open: " + path + ": " + strerror(errno));
        ssize_t n = write(fd, value.data(), value.size());
        close(fd);
        if (n != (ssize_t)value.size())
            throw std::runtime_error("write: " + path);
    }

    bool load(const std::string &key, std::string &value) const {
        char buf[64];
        int fd = open(path_of(key).c_str(), O_RDONLY);
        if (fd < 0)
            return false;
        ssize_t n = read(fd, buf, sizeof buf);
        close(fd);
        if (n < 0)
            return false;
        value.assign(buf, (size_t)n);
        return true;
    }

    void remove(const std::string &key) const {
        std::string dir = path_of(key);
        unlink(dir.c_str());
        while (dir != root_) {
            dir = fs::parent_path(dir);
            rmdir(dir.c_str());
        }
    }

private:
    std::string path_of(const std::string &key) const {
        return root_ + "/" + key.substr(0, 2) + "/" + key.substr(2, 2) + "/" + key.substr(4);
    }
    const std::string root_;
};

static void worker(DiskCache &cache, const std::vector<std::string> &keys, int &failed) {
    for (const std::string &k : keys) {
        try {
            cache.store(k, "object " + k);
        } catch (const std::exception &e) {
            fprintf(stderr, "%s\n", e.what());
            failed++;
        }
    }
}

int main() {
    const std::vector<std::string> keys[2] = {{"11e0a0", "22f1a1", "a1b2c2"}, {"a1b2d3", "33d4a4"}};
    std::string root = "/tmp/cache-" + std::to_string(getpid());
    DiskCache cache(root);
    int failed[2] = {0, 0};
    size_t found = 0;
    for (auto &list : keys)
        for (auto &k : list)
            cache.remove(k);
    fs::create_directories(root);
    std::thread a(worker, std::ref(cache), std::cref(keys[0]), std::ref(failed[0]));
    std::thread b(worker, std::ref(cache), std::cref(keys[1]), std::ref(failed[1]));
    a.join();
    b.join();
    for (auto &list : keys)
        for (auto &k : list) {
            std::string value;
            if (cache.load(k, value) && value == "object " + k)
                found++;
        }
    for (int pass = 0; pass < 2; pass++)
        for (auto &list : keys)
            for (auto &k : list)
                cache.remove(k);
    rmdir(root.c_str());
    printf("%zu objects stored, %d failed\n", found, failed[0] + failed[1]);
    return found == 5 && failed[0] + failed[1] == 0 ? 0 : 1;
}
