/* lookout.h - a thread that looks whether other ranks are gone while this rank's own threads may be held up; private to
 * the transport over sockets.
 *
 *   I1  A rank whose own threads are free sees by itself that another one is gone, and closes its transport. The lookout
 *       speaks only if that has not happened so many seconds after a connection was closed.
 *   I2  A rank that said that it ends well may be gone, however long others go on.
 *   I3  It looks at copies of the sockets and takes nothing out of them.
 */
#ifndef WEFT_RUN_TRANSPORT_LOOKOUT_H
#define WEFT_RUN_TRANSPORT_LOOKOUT_H

#include "run/transport/messages.h"

struct lookout;
/* NULL: there are no more threads or files. */
struct lookout *lookout_new(struct connections *connections, double patience_s,
                            void (*gone)(int32_t rank));
void lookout_free(struct lookout *lookout); /* NULL: nothing; before its connections are closed */

#endif
