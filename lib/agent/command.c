/* command: see command.h. */
#include "agent/command.h"

#include "base/clock.h"
#include "base/fs.h"
#include "proc/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAP_TRIES 200 /* a millisecond apart */

struct pipes {
	int in[2], out[2]; /* of the command */
};

static void close_pipes(struct pipes *p)
{
	for (int i = 0; i < 2; i++) {
		fs_close(&p->in[i]);
		fs_close(&p->out[i]);
	}
}

/* value NULL: remove the variable. */
static void command_put(const char *name, const char *value)
{
	if ((value ? setenv(name, value, 1) : unsetenv(name)) != 0)
		_exit(ERROR_OS);
}

static void command_put_number(const char *name, int number)
{
	char text[16];
	snprintf(text, sizeof text, "%d", number);
	command_put(name, text);
}

static void put_all(const char *const *env, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *equals = strchr(env[i], '=');
		char *name = strndup(env[i], (size_t)(equals - env[i]));
		if (!name)
			_exit(ERROR_OS);
		command_put(name, equals + 1);
		free(name);
	}
}

/* The two ends. Some shells know no descriptors beyond 9. */
static void give_pipes(const struct pipes *p)
{
	int in = fcntl(p->in[0], F_DUPFD_CLOEXEC, COMMAND_OUT + 1);
	int out = fcntl(p->out[1], F_DUPFD_CLOEXEC, COMMAND_OUT + 1);
	if (in < 0 || out < 0 || dup2(in, COMMAND_IN) < 0 || dup2(out, COMMAND_OUT) < 0)
		_exit(ERROR_OS);
	command_put_number("PACELINE_IN", COMMAND_IN);
	command_put_number("PACELINE_OUT", COMMAND_OUT);
}

static _Noreturn void command_become(const struct command_options *o, const struct pipes *p,
				     pid_t parent)
{
	int input = o->input;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	process_signals_reset();
	if (getppid() != parent) /* our parent died before prctl() */
		_exit(ERROR_OS);
	if (input < 0)
		input = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (input < 0 || dup2(input, 0) < 0 || (o->output >= 0 && dup2(o->output, 1) < 0))
		_exit(ERROR_OS);
	command_put("PACELINE_ID", o->id);
	command_put("PACELINE_RESUME", o->resume);
	put_all(o->env, o->env_count);
	if (o->talks) {
		give_pipes(p);
		/* People follow the log, and Python would buffer its output for long. */
		if (setenv("PYTHONUNBUFFERED", "1", 0) != 0)
			_exit(ERROR_OS);
	} else { /* descriptors of an agent above us: not ours to pass on */
		command_put("PACELINE_IN", NULL);
		command_put("PACELINE_OUT", NULL);
	}
	execvp(o->argv[0], o->argv);
	process_not_run("agent", o->argv[0]);
}

static int command_spawn(struct command *c, const struct command_options *o, struct pipes *p,
			 struct error *err)
{
	pid_t parent = getpid();
	if (o->talks && (pipe2(p->in, O_CLOEXEC) != 0 || pipe2(p->out, O_CLOEXEC) != 0))
		return error_errno(err, ERROR_OS, o->argv[0], "pipe");
	c->pid = process_fork();
	if (c->pid == 0)
		command_become(o, p, parent);
	if (c->pid < 0) {
		c->pid = 0;
		return error_errno(err, ERROR_OS, o->argv[0], "fork");
	}
	setpgid(c->pid, c->pid);
	c->pid_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	return c->pid_fd < 0 ? error_errno(err, ERROR_OS, o->argv[0], "pidfd_open") : 0;
}

int command_start(struct command *c, const struct command_options *options, struct error *err)
{
	struct pipes p = {{-1, -1}, {-1, -1}};
	*c = (struct command){.pid_fd = -1, .to = -1, .from = -1};
	int result = command_spawn(c, options, &p, err);
	if (result == 0 && options->talks) {
		c->to = p.in[1];
		c->from = p.out[0];
		p.in[1] = p.out[0] = -1;
		fcntl(c->to, F_SETFL, O_NONBLOCK);
		fcntl(c->from, F_SETFL, O_NONBLOCK);
	}
	close_pipes(&p);
	if (result != 0)
		command_close(c);
	return result;
}

int command_ended(struct command *c)
{
	int status;
	if (c->ended || c->pid == 0)
		return c->ended;
	/* First kill the processes that it leaves, while its zombie keeps the group's number from
	 * others. */
	siginfo_t info = {0};
	if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
		return 0;
	kill(-c->pid, SIGKILL);
	if (waitpid(c->pid, &status, WNOHANG) != c->pid)
		return 0;
	c->ended = 1;
	c->end = end_of(status);
	return 1;
}

void command_kill(struct command *c, int signal)
{
	if (c->pid > 0 && !c->ended)
		kill(-c->pid, signal);
}

void command_close(struct command *c)
{
	command_kill(c, SIGKILL);
	/* A process that hangs in the kernel (hung storage) is left to whoever reaps our
	 * children. */
	for (int i = 0; c->pid > 0 && i < REAP_TRIES && !command_ended(c); i++)
		clock_sleep(0.001);
	fs_close(&c->pid_fd);
	fs_close(&c->to);
	fs_close(&c->from);
	c->pid = 0;
}

int command_env_check(const char *setting, struct error *err)
{
	const char *equals = strchr(setting, '=');
	size_t name = equals ? (size_t)(equals - setting) : 0;
	if (name > 0 && (setting[0] < '0' || setting[0] > '9') &&
	    strspn(setting, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
		    name)
		return 0;
	return error_set(err, ERROR_USAGE, "--env", "'%.100s' is not NAME=VALUE", setting);
}
