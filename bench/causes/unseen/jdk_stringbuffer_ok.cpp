/* correct twin of jdk_stringbuffer: length and characters are taken under one hold of the other's lock */
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

constexpr int kLines = 4;

class StringBuffer {
public:
    size_t Length() const
    {
        std::lock_guard<std::recursive_mutex> l(mutex_);
        return value_.size();
    }

    void GetChars(size_t begin, size_t end, char *dst) const
    {
        std::lock_guard<std::recursive_mutex> l(mutex_);
        if (end > value_.size())
            throw std::out_of_range("StringBuffer::GetChars");
        value_.copy(dst, end - begin, begin);
    }

    void Append(const std::string &s)
    {
        std::lock_guard<std::recursive_mutex> l(mutex_);
        value_ += s;
    }

    void Append(const StringBuffer &other)
    {
        std::lock_guard<std::recursive_mutex> l(mutex_);
        std::lock_guard<std::recursive_mutex> o(other.mutex_);
        size_t old = value_.size();
        size_t len = other.Length();
        value_.resize(old + len);
        other.GetChars(0, len, &value_[old]);
    }

    void SetLength(size_t n)
    {
        std::lock_guard<std::recursive_mutex> l(mutex_);
        value_.resize(n);
    }

    std::string ToString() const
    {
        std::lock_guard<std::recursive_mutex> l(mutex_);
        return value_;
    }

private:
    mutable std::recursive_mutex mutex_;
    std::string value_;
};

StringBuffer line;
StringBuffer journal;

void Editor()
{
    for (int i = 0; i < kLines; i++) {
        line.Append("edit" + std::to_string(i) + ";");
        if (i % 2)
            line.SetLength(0);
    }
}

void Journalist()
{
    for (int i = 0; i < kLines; i++) {
        journal.Append(line);
        journal.Append("\n");
    }
}

} // namespace

int main()
{
    line.Append("begin;");
    std::thread e(Editor), j(Journalist);
    e.join();
    j.join();
    std::string all = journal.ToString();
    int lines = 0;
    for (char c : all) {
        if (c == '\0')
            return 1;
        lines += c == '\n';
    }
    std::printf("%d lines\n", lines);
    return lines != kLines;
}
