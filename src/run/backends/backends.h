/* backends.h - the devices that Weft's own runtime computes on, by name: a row each of kernels and of what
 * lies under them (kernels.h, device.h). To add one: a row of the table here, a room of kernels. */
#ifndef WEFT_RUN_BACKENDS_H
#define WEFT_RUN_BACKENDS_H

#include "run/kernels/kernels.h"
#include "run/transport/transport.h"

/* Opens what the backend needs; the error says what is missing. `place`: of this process among those of its
 * machine. */
weft_status backend_open(const char *name, int32_t place, const struct kernels **out);
/* How ranks that are processes exchange the memory of such devices; NULL: through the host. */
transport_carrier *backend_carrier(const char *name);

#endif
