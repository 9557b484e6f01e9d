/* class: atomicity violation (one pointer, checked and used); fails by: crash; cause: getObjectName finds the referenced column map set and reads the field again to ask it for a column, and another statement that has been compiled sets the field to null between the two reads */
#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

// maps live as long as the program, as objects do under a garbage collector
class FormatableBitSet {
public:
    explicit FormatableBitSet(unsigned bits) : bits_(bits) {}
    bool isSet(int column) const { return (bits_ >> column) & 1u; }

private:
    unsigned bits_;
};

class TableDescriptor {
public:
    TableDescriptor(std::string name, std::vector<std::string> columns)
        : name_(std::move(name)), columns_(std::move(columns)) {}

    void setReferencedColumnMap(const FormatableBitSet *map) {
        referencedColumnMap_.store(map); // CAUSE
    }

    std::string getObjectName() const {
        if (referencedColumnMap_.load() == nullptr) // CAUSE
            return name_;
        std::string text = name_ + "(";
        bool first = true;
        for (size_t i = 0; i < columns_.size(); i++) {
            if (!referencedColumnMap_.load()->isSet(static_cast<int>(i))) // CAUSE
                continue;
            if (!first)
                text += ", ";
            text += columns_[i];
            first = false;
        }
        return text + ")";
    }

private:
    const std::string name_;
    const std::vector<std::string> columns_;
    std::atomic<const FormatableBitSet *> referencedColumnMap_{nullptr};
};

static const FormatableBitSet insertColumns(0x5), viewColumns(0x6);

struct Statement {
    const FormatableBitSet *columns;
    std::vector<std::string> dependencies;
};

// registers the statement as a dependent of the table, column by column
static void compile(TableDescriptor &table, Statement &st) {
    table.setReferencedColumnMap(st.columns);
    st.dependencies.push_back(table.getObjectName());
    table.setReferencedColumnMap(nullptr);
}

int main() {
    TableDescriptor table("T", {"A", "B", "C"});
    std::array<Statement, 2> statements{{{&insertColumns, {}}, {&viewColumns, {}}}};
    std::vector<std::thread> sessions;
    for (auto &st : statements)
        sessions.emplace_back([&table, &st] { compile(table, st); });
    for (auto &s : sessions)
        s.join();
    size_t names = 0;
    for (auto &st : statements)
        names += st.dependencies.size();
    std::printf("%zu dependencies, table %s\n", names, table.getObjectName().c_str());
    return names == statements.size() ? 0 : 1;
}
