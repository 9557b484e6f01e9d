/* fork: the child ends with exit code 5 and main collects it. Under the recorder fork is refused, clearly:
 * processes are not supported. */
#include "guest.h"
#include <sys/wait.h>

int main(void) {
    int status;
    printf("fork_try: before\n");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(5);
    if (child == -1) {
        printf("fork_try: %s\n", strerrorname_np(errno));
        return 3;
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    printf("fork_try: child ended with 5\n");
    return 0;
}
