/* class: order violation (missing barrier after work done by one thread); fails by: wrong result; cause: the thread which wins the single section fills the shift table while the other threads do not wait for it and sum forces with the unfilled table */
#include <pthread.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

struct Atom {
    long x, q, type;
};

class Team {
    std::atomic<unsigned> single_{0};
    pthread_barrier_t barrier_;

public:
    const unsigned size;
    explicit Team(unsigned n) : size(n) { pthread_barrier_init(&barrier_, nullptr, n); }
    ~Team() { pthread_barrier_destroy(&barrier_); }
    bool single() { return single_.fetch_add(1) == 0; }
    void barrier() { pthread_barrier_wait(&barrier_); }
};

class Simulation {
    std::vector<Atom> atoms_;
    std::atomic<long> shift_[4];
    std::unique_ptr<long[]> force_;
    std::mutex ener_lock_;
    long kinetic_ = 0, potential_ = 0;

    void fill_shift_table() {
        for (int k = 0; k < 4; k++) {
            long s = 7;
            for (int i = 0; i < 5 + k; i++)
                s = s * 3 % 1009 + k;
            shift_[k].store(s, std::memory_order_release); // CAUSE
        }
    }
    long pair_force(const Atom &a, const Atom &b) const {
        long r = a.x > b.x ? a.x - b.x : b.x - a.x;
        return a.q * b.q * (r + shift_[(a.type + b.type) & 3].load(std::memory_order_acquire)); // CAUSE
    }

public:
    explicit Simulation(unsigned n) : force_(new long[n]()) {
        for (auto &s : shift_)
            s.store(0);
        for (unsigned i = 0; i < n; i++)
            atoms_.push_back({long(i) * 13 % 17, long(i % 2 ? 1 : 2), long(i)});
    }
    void md_step(Team &team, unsigned rank) {
        const unsigned n = unsigned(atoms_.size());
        const unsigned lo = n * rank / team.size, hi = n * (rank + 1) / team.size;
        if (team.single())
            fill_shift_table();
        long ekin = 0, epot = 0;
        for (unsigned i = lo; i < hi; i++)
            ekin += atoms_[i].x * atoms_[i].x;
        for (unsigned i = lo; i < hi; i++) {
            force_[i] = 0;
            for (unsigned j = 0; j < n; j++)
                if (j != i)
                    force_[i] += pair_force(atoms_[i], atoms_[j]);
            epot += force_[i];
        }
        {
            std::lock_guard<std::mutex> g(ener_lock_);
            kinetic_ += ekin;
            potential_ += epot;
        }
        team.barrier();
    }
    long potential() const { return potential_; }
    long kinetic() const { return kinetic_; }
};

int main() {
    enum { ATOMS = 18, RANKS = 3 };
    Team team(RANKS), alone(1);
    Simulation sim(ATOMS), reference(ATOMS);
    reference.md_step(alone, 0);
    std::vector<std::thread> ranks;
    for (unsigned r = 1; r < RANKS; r++)
        ranks.emplace_back([&, r] { sim.md_step(team, r); });
    sim.md_step(team, 0);
    for (auto &t : ranks)
        t.join();
    std::printf("kinetic %ld potential %ld\n", sim.kinetic(), sim.potential());
    if (sim.kinetic() != reference.kinetic() || sim.potential() != reference.potential()) {
        std::fprintf(stderr, "energies differ from the reference\n");
        return 1;
    }
    return 0;
}
