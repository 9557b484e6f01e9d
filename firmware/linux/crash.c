/* A thread reads through a null pointer, without a handler: the process dies of SIGSEGV (exit code 139). */
#include "guest.h"

struct account {
    long number, balance;
};

static NOINLINE long balance_of(const struct account *account) {
    return account->balance;
}

static void *look_up(void *argument) {
    return (void *)balance_of(argument);
}

int main(void) {
    struct account account = {1, 100};
    printf("crash: balance %ld\n", (long)join(start(look_up, &account)));
    fflush(stdout);
    printf("crash: balance %ld\n", (long)join(start(look_up, NULL)));
    return 0;
}
