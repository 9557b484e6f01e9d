/* Peterson's lock without its fence: right under sequential consistency; under TSO both cores can pass
 * each other's store in its buffer, be inside together, and lose a count (exit code 1). */
#define PETERSON_NAME "peterson_nofence"
#define PETERSON_FENCE() compiler_fence()
#include "peterson.h"
