/*
 * program: which program a command for sh(1) runs first, where that can be told without a shell.
 */
#ifndef PACELINE_JOB_PROGRAM_H
#define PACELINE_JOB_PROGRAM_H

#include <stddef.h>

/* Behind `exec`, `env` and words NAME=VALUE. 1: out has it. 0: it can't be told: it has a character
 * that a shell looks at, or stands behind one, behind an option, or behind a PATH of its own. */
int program_of(const char *command, char *out, size_t max);

#endif
