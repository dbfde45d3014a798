// TRIREME_HD marks a scalar formula that host and device share.
#pragma once

#if defined(__CUDACC__)
#define TRIREME_HD __host__ __device__
#else
#define TRIREME_HD
#endif
