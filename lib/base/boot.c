#include "base/boot.h"

#include "base/fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void boot_id(char out[BOOT_ID_MAX])
{
	char *text;
	out[0] = '\0';
	if (fs_read_file("/proc/sys/kernel/random/boot_id", 4096, &text, NULL, NULL) != 0)
		return;
	snprintf(out, BOOT_ID_MAX, "%.*s", (int)strcspn(text, " \n"), text);
	free(text);
}
