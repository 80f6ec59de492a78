/*
 * boot: which run of the machine this is.  Two processes that got the same id run since the same
 * boot: the second may have read what the first wrote, even if it was never synced.
 */
#ifndef PACELINE_BASE_BOOT_H
#define PACELINE_BASE_BOOT_H

#define BOOT_ID_MAX 64 /* bytes of an id with its NUL */

/* The kernel's id of this boot; empty if the kernel has none. */
void boot_id(char out[BOOT_ID_MAX]);

#endif
