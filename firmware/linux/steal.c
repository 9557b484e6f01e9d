/* Tasks in deques: each thread puts new tasks at the end of its own and takes them from there; one that has none takes
 * from the other end of another's, without a lock (Chase and Lev, SPAA 2005, in C11's memory model as Le, Pop, Cohen
 * and Zappa Nardelli, PPoPP 2013). A task places the next queen on a board. Compared with a plain search. Arguments:
 * threads, SIZE of the board. */
#include "kernels.h"
#include <sched.h>

#define ROOM 256
/* So many last rows are searched within a task. */
#define WITHIN 3

/* Tasks from `top` to below `bottom`; each index is on a line of its own. */
struct deque {
    _Alignas(64) long top;
    _Alignas(64) long bottom;
    _Alignas(64) unsigned long task[ROOM];
};

/* Columns and diagonals that are taken in the next row, a bit each, and what the rows before it were. */
struct board {
    unsigned columns, left, right, row;
    unsigned long placed;
};

static unsigned size;
static struct deque deques[MOST_THREADS];
static long pending, solutions;
static unsigned long sum;

/* A board in a word: the columns of its queens, three bits each, and how many there are. */
static struct board unpacked(unsigned long task) {
    struct board board = {0, 0, 0, task >> 56, task & ((1ul << 56) - 1)};
    for (unsigned row = 0; row < board.row; row++) {
        unsigned bit = 1u << (board.placed >> 3 * row & 7);
        board.columns |= bit;
        board.left = (board.left | bit) << 1;
        board.right = (board.right | bit) >> 1;
    }
    return board;
}

static unsigned long free_columns(const struct board *board) {
    return ~(board->columns | board->left | board->right) & ((1u << size) - 1);
}

static struct board with_queen(const struct board *board, unsigned column) {
    unsigned bit = 1u << column;
    return (struct board){board->columns | bit, (board->left | bit) << 1, (board->right | bit) >> 1, board->row + 1,
                          board->placed | (unsigned long)column << 3 * board->row};
}

/* Solutions below a board; `total` is their checksum, in whatever order. */
static long search(const struct board *board, unsigned long *total) {
    if (board->row == size) {
        *total += mix(FIRST_SUM, board->placed);
        return 1;
    }
    long found = 0;
    for (unsigned long open = free_columns(board); open; open &= open - 1) {
        struct board next = with_queen(board, __builtin_ctzl(open));
        found += search(&next, total);
    }
    return found;
}

static void push(struct deque *mine, unsigned long task) {
    long bottom = __atomic_load_n(&mine->bottom, __ATOMIC_RELAXED);
    CHECK(bottom - __atomic_load_n(&mine->top, __ATOMIC_ACQUIRE) < ROOM);
    __atomic_store_n(&mine->task[bottom % ROOM], task, __ATOMIC_RELAXED);
    __atomic_store_n(&mine->bottom, bottom + 1, __ATOMIC_RELEASE);
}

static int take_top(struct deque *deque, long top) {
    return __atomic_compare_exchange_n(&deque->top, &top, top + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* The newest task of one's own deque; whether there was one. */
static int take(struct deque *mine, unsigned long *task) {
    long bottom = __atomic_load_n(&mine->bottom, __ATOMIC_RELAXED) - 1;
    __atomic_store_n(&mine->bottom, bottom, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    long top = __atomic_load_n(&mine->top, __ATOMIC_RELAXED);
    int got = top <= bottom;
    if (got)
        *task = __atomic_load_n(&mine->task[bottom % ROOM], __ATOMIC_RELAXED);
    if (top < bottom)
        return 1;
    /* The last one: whoever moves the top has it. */
    got = got && take_top(mine, top);
    __atomic_store_n(&mine->bottom, bottom + 1, __ATOMIC_RELAXED);
    return got;
}

/* The oldest task of another's deque; whether one was got. */
static int steal(struct deque *other, unsigned long *task) {
    long top = __atomic_load_n(&other->top, __ATOMIC_ACQUIRE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (top >= __atomic_load_n(&other->bottom, __ATOMIC_ACQUIRE))
        return 0;
    *task = __atomic_load_n(&other->task[top % ROOM], __ATOMIC_RELAXED);
    return take_top(other, top);
}

static int find_task(long me, unsigned long *task) {
    if (take(&deques[me], task))
        return 1;
    for (long step = 1; step < threads; step++)
        if (steal(&deques[(me + step) % threads], task))
            return 1;
    return 0;
}

static long work(long me, unsigned long task, unsigned long *total) {
    struct board board = unpacked(task);
    if (board.row + WITHIN >= size)
        return search(&board, total);
    for (unsigned long open = free_columns(&board); open; open &= open - 1) {
        struct board next = with_queen(&board, __builtin_ctzl(open));
        __atomic_fetch_add(&pending, 1, __ATOMIC_RELAXED);
        push(&deques[me], next.placed | (unsigned long)next.row << 56);
    }
    return 0;
}

static void *worker(void *argument) {
    long me = (long)argument, found = 0;
    unsigned long task, total = 0;
    while (__atomic_load_n(&pending, __ATOMIC_ACQUIRE) > 0) {
        if (!find_task(me, &task)) {
            sched_yield();
            continue;
        }
        found += work(me, task, &total);
        __atomic_fetch_sub(&pending, 1, __ATOMIC_RELEASE);
    }
    __atomic_fetch_add(&solutions, found, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum, total, __ATOMIC_RELAXED);
    return argument;
}

int main(int count, char **arguments) {
    size = read_arguments(count, arguments, 6, 4, 8, 1);
    pending = 1;
    push(&deques[0], 0);
    run_threads(threads, worker);
    struct board empty = {0};
    unsigned long total = 0;
    CHECK(search(&empty, &total) == solutions);
    CHECK(total == sum);
    printf("steal: board %u solutions %ld sum %016lx\n", size, solutions, sum);
    return 0;
}
