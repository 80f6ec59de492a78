/* fabricd: one rank a host of the MPI world that carries a job's sockets between its hosts. */
#include "base/clock.h"
#include "base/version.h"
#include "cmd/daemon.h"
#include "fabric/fabric.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "fabricd"
#define START_SECONDS 20
#define OTHERS_SECONDS 4 /* seconds for the others to say why they end, before the first one that
			  * ends takes all with it */
#define END_SECONDS 15

static char late_words[512];
static double begun; /* clock_mono() */

#define AT_ONCE_BYTES "589824" /* 512 KB, and headers */

/* The world waits on TCP connections, so MPI must use TCP even on one host; a user who wants
 * another transport tells mpirun. Bulk that both sides have named already needs no more words:
 * they would stand behind other bulk. */
static void choose_transport(void)
{
	setenv("OMPI_MCA_pml", "ob1", 0);
	setenv("OMPI_MCA_btl", "tcp,self", 0);
	setenv("OMPI_MCA_btl_tcp_eager_limit", AT_ONCE_BYTES, 0);
	setenv("OMPI_MCA_btl_tcp_max_send_size", AT_ONCE_BYTES, 0);
}

static int is_chosen(const char *variable, const char *value)
{
	const char *chosen = getenv(variable);
	return chosen && strcmp(chosen, value) == 0;
}

/* Before MPI_Init: its threads could not be kept from files later. A rank by TCP needs no session
 * directory of its own, and one that was started alone no orted(1), but Open MPI would make the one
 * and execute the other. So it has to write only where mpirun or srun has files that ranks lock.
 * What drivers of other transports need is not known. */
static int fabricd_confine(const struct fabric_options *options, struct error *err)
{
	if (!is_chosen("OMPI_MCA_pml", "ob1") || !is_chosen("OMPI_MCA_btl", "tcp,self"))
		return 0;
	setenv("OMPI_MCA_orte_create_session_dirs", "0", 1);
	setenv("OMPI_MCA_ess_singleton_isolated", "1", 1);
	if (fs_make_dirs(options->run_dir, err) != 0)
		return -1;
	cmd_confine(&(struct confine_ask){
		.read = {"/"},
		.write = {options->run_dir, getenv("PMIX_SERVER_TMPDIR")},
		.sockets = CONFINE_ANY_SOCKETS,
		.signals = 1}); /* an earlier one that is stopped is killed */
	return 0;
}

/* Slurm's name of the node comes first: srun gives the rest of the environment to all ranks
 * alike. */
static const char *this_host(char *name, size_t max)
{
	static const char *const variable[] = {"SLURMD_NODENAME", "PACELINE_HOST"};
	for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
		const char *value = getenv(variable[i]);
		if (value && *value)
			return value;
	}
	gethostname(name, max - 1);
	return name;
}

/* MPI waits forever for a rank that does not come. Each rank that comes says so: the rank whose
 * line is missing is the one to look at. One that stood still hears of its alarm when mpirun(1) lets it go
 * on to end it: it is too late then to say that it came. */
static void fabricd_on_late(int signal)
{
	static volatile sig_atomic_t said;
	(void)signal;
	if (said || clock_mono() - begun > START_SECONDS + OTHERS_SECONDS / 2.0)
		_exit(ERROR_TEMPFAIL);
	said = 1;
	alarm(OTHERS_SECONDS);
	if (write(STDERR_FILENO, late_words, strlen(late_words)) < 0)
		_exit(ERROR_TEMPFAIL);
}

static int fabricd_begin(struct fabric **f, const struct fabric_options *options, struct error *err)
{
	snprintf(late_words, sizeof late_words,
		 PROGRAM ": %.64s: the MPI world has not begun after %d s: it waits for other hosts\n",
		 options->host, START_SECONDS);
	begun = clock_mono();
	signal(SIGALRM, fabricd_on_late);
	alarm(START_SECONDS);
	int result = fabric_new(f, options, err);
	alarm(0);
	signal(SIGALRM, SIG_DFL);
	return result;
}

static int fabricd_run(const struct fabric_options *options, struct error *err)
{
	struct fabric *f = NULL;
	struct error late;
	if (fabricd_begin(&f, options, err) != 0)
		return -1;
	int result = daemon_run(fabric_server(f), err);
	/* A rank that hangs in MPI_Finalize is of no use: it ends itself. */
	alarm(END_SECONDS);
	if (fabric_free(f, &late) != 0 && result == 0) {
		*err = late;
		return -1;
	}
	return result;
}

static enum sum_way way_of(const char *rounds)
{
	enum sum_way way = SUM_BY_RING;

	while (strcmp(rounds, sum_way_name(way)) != 0)
		way++;
	return way;
}

int main(int argc, char **argv)
{
	char name[256] = "";
	const char *rounds = "ring";
	struct fabric_options options = {.version = PACELINE_VERSION};
	const struct option_row rows[] = {
		{.name = "run-dir", .letter = 'd', .kind = OPTION_TEXT, .target = &options.run_dir,
		 .arg = "DIR", .help = "the sockets of the job are in DIR, on every host"},
		{.name = "routes", .kind = OPTION_TEXT, .target = &options.routes, .arg = "FILE",
		 .help = "which daemon is on which host; rank 0 reads it and sends it to the "
			 "others"},
		{.name = "host", .kind = OPTION_ID, .target = &options.host, .arg = "NAME",
		 .help = "this host, as routes call it ($SLURMD_NODENAME, $PACELINE_HOST, or its own name)"},
		{.name = "rounds", .kind = OPTION_CHOICE, .target = &rounds, .arg = "HOW",
		 .choices = "ring|rate|shares",
		 .help = "how dense vectors are summed, on all hosts alike (ring); shares: by shares that "
			 "follow the rates of the links; rate: by the faster of both"},
		{0}};
	const struct option_table table = {
		.program = PROGRAM,
		.synopsis = "--run-dir DIR [--routes FILE] [--host NAME] [--rounds HOW]",
		.about = "Carries the sockets of a job between its hosts, over MPI.",
		.rows = rows,
		.epilogue = DAEMON_CLIENTS};
	struct error err = {0};
	int status = 0;

	loop_begin(PROGRAM);
	options.host = this_host(name, sizeof name);
	cmd_parsed(PROGRAM, cmd_options(&table, argc, argv, &err), &err);
	int parsed = 0;
	if (!options.run_dir)
		parsed = error_set(&err, ERROR_USAGE, NULL, "needs --run-dir DIR");
	if (parsed == 0 && !option_id_ok(options.host))
		parsed = error_set(&err, ERROR_USAGE, options.host,
				   "is no name of a host: letters, digits, . _ and -");
	options.way = way_of(rounds);
	choose_transport();
	if (parsed != 0 || fabricd_confine(&options, &err) != 0 || fabricd_run(&options, &err) != 0)
		status = cmd_fail(PROGRAM, &err);
	return cmd_end(PROGRAM, status);
}
