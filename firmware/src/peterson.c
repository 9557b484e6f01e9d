/* Peterson's lock between cores 0 and 1, with the fence that a machine with store buffers needs between
 * the stores to `wants` and `turn` and the loads that follow. Further cores are idle. Prints the count
 * of critical sections; exit code 1 when it is wrong. */
#define PETERSON_NAME "peterson"
#define PETERSON_FENCE() full_fence()
#include "peterson.h"
