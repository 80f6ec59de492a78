/* The library's header, of which nothing is inlined: a linker can only wrap what is called (--wrap). */
#pragma GCC system_header
#undef XXH_INLINE_ALL
#include_next <xxhash.h>
