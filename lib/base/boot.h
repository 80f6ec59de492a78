/*
 * boot: which run of the machine this is.  Two processes that were told the same id have lived
 * since the same boot: what one of them had written, and nobody synced, the other may still have
 * read.
 */
#ifndef PACELINE_BASE_BOOT_H
#define PACELINE_BASE_BOOT_H

#define BOOT_ID_MAX 64 /* bytes of an id with its NUL */

/* The kernel's id of this boot; empty when it does not tell. */
void boot_id(char out[BOOT_ID_MAX]);

#endif
