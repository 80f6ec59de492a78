/* command: see command.h. */
#include "tests/sim/command.h"

#include "tests/sim/kernel.h"

#include "agent/filter.h"
#include "base/fs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static pid_t commands[COMMANDS_MAX];

pid_t command_pid(int agent)
{
	return commands[agent];
}

/* What is one for each process elsewhere. */
static struct signalled {
	pid_t pid;
	volatile int stop, look;
	int wake;
} signalled[COMMANDS_MAX];

void command_begin(void)
{
	memset(commands, 0, sizeof commands);
	memset(signalled, 0, sizeof signalled);
}

/* ---- words ---- */

int words_hear(struct words *w)
{
	for (;;) {
		char *end = memchr(w->text, '\n', w->len);
		if (end) {
			size_t len = (size_t)(end - w->text);
			memcpy(w->line, w->text, len);
			if (record_parse(&w->record, w->line, len, &w->err) != 0)
				sim_fail("a trainer hears '%.*s': %s", (int)len, w->line, w->err.text);
			w->len -= len + 1;
			memmove(w->text, end + 1, w->len);
			return 1;
		}
		ssize_t n = read(COMMAND_IN, w->text + w->len, sizeof w->text - w->len);
		if (n <= 0)
			return 0;
		w->len += (size_t)n;
	}
}

int words_say(const char *line)
{
	size_t len = strlen(line);
	for (size_t done = 0; done < len;) {
		ssize_t n = write(COMMAND_OUT, line + done, len - done);
		if (n <= 0)
			return 0;
		done += (size_t)n;
	}
	return 1;
}

/* ---- the process, as lib/agent/command.c has it elsewhere ---- */

int __wrap_command_start(struct command *c, const struct command_options *o, struct error *err);
int __wrap_command_start(struct command *c, const struct command_options *o, struct error *err)
{
	int in[2], out[2], i = o->id[1] - '0';
	char name[16], number[12], *argv[32] = {name, number};
	size_t count = 2;
	for (size_t k = 0; k < o->env_count && count < 31; k++)
		argv[count++] = (char *)(uintptr_t)o->env[k];
	snprintf(name, sizeof name, "t%d", i);
	snprintf(number, sizeof number, "%d", i);
	if (o->talks && (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0))
		return error_errno(err, ERROR_OS, "", "pipe");
	*c = (struct command){.pid = sim_start(name, trainer_main, (int)count, argv), .to = -1, .from = -1};
	commands[i] = c->pid;
	sim_dies_with(c->pid, getpid());
	c->pid_fd = sim_pid_file(c->pid);
	if (!o->talks)
		return 0;
	c->to = in[1];
	c->from = out[0];
	sim_give_file(c->pid, in[0], COMMAND_IN);
	sim_give_file(c->pid, out[1], COMMAND_OUT);
	close(in[0]);
	close(out[1]);
	fcntl(c->to, F_SETFL, O_NONBLOCK);
	fcntl(c->from, F_SETFL, O_NONBLOCK);
	return 0;
}

int __wrap_command_ended(struct command *c);
int __wrap_command_ended(struct command *c)
{
	if (c->ended || c->pid == 0 || sim_is_alive(c->pid))
		return c->ended;
	int status = sim_status(c->pid);
	c->ended = 1;
	c->end = (struct node_end){.seen = 1, .status = status < 128 ? status : 0, .signal = status < 128 ? 0 : status - 128};
	return 1;
}

void __wrap_command_kill(struct command *c, int number);
void __wrap_command_kill(struct command *c, int number)
{
	if (c->pid > 0 && !c->ended && number != SIGURG)
		sim_signal(c->pid, number);
}

void __wrap_command_close(struct command *c);
void __wrap_command_close(struct command *c)
{
	if (c->pid == 0)
		return;
	sim_signal(c->pid, SIGKILL);
	close(c->pid_fd);
	fs_close(&c->to);
	fs_close(&c->from);
	c->pid = 0;
}

/* No memory is offered for what is saved. */
int __wrap_keep_new(const char *name, struct error *err);
int __wrap_keep_new(const char *name, struct error *err)
{
	return error_set(err, ERROR_OS, name, "no memory");
}

/* ---- an agent ---- */

/* It is called in the process that is told. */
static void command_stop(int number)
{
	uint64_t one = 1;
	(void)number;
	for (int i = 0; i < COMMANDS_MAX; i++)
		if (signalled[i].pid == getpid()) {
			signalled[i].stop = 1;
			(void)!write(signalled[i].wake, &one, sizeof one);
		}
}

int command_agent(struct agent_options *o, int is_each, int *stopped)
{
	struct signalled *s = &signalled[o->meter.id[1] - '0'];
	struct agent *a = NULL;
	struct node_end end = {0};
	struct error err = {0};
	*s = (struct signalled){.pid = getpid(), .wake = eventfd(0, EFD_NONBLOCK)};
	signal(SIGTERM, command_stop);
	o->stop = &s->stop;
	o->look = &s->look;
	o->wake = s->wake;
	int result = is_each ? filter_each(o, &err) : agent_new(&a, o, &err);
	if (result == 0 && !is_each)
		result = agent_run(a, &end, &err);
	agent_free(a);
	if (result != 0)
		sim_trace("%s: %s", err.place, err.text);
	*stopped = s->stop;
	return end.seen && end.signal ? 128 + end.signal : result == 0 ? 0 : result > 0 ? result : err.code ? err.code : 1;
}
