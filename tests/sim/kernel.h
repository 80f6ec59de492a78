/*
 * kernel: a simulated machine in one process: processes, sockets, a disk, a clock, and the loop that libevent would
 * be. The programs and rooms of the kit run on it unchanged: the linker gives them the functions of kernel.c for
 * those of the C library (--wrap), and for libevent's.
 *
 * A process is a coroutine. It runs until it waits, or until the seed says that another one goes on in the middle of a
 * call. Time passes only by calls, and jumps to the next deadline when all wait. Reads and writes come short, bytes
 * arrive late, what is not on disk is lost when the power fails, wholly or in part, all by one seed: the same seed
 * gives the same run. A child that is forked computes at once, as a real one, with a copy of all memory; what it does to files
 * and sockets is then done by a process of the run. A process has no variables of its own outside of its stack and heap.
 *
 * After FoundationDB (Zhou et al., SIGMOD 2021, section 4) and TigerBeetle's VOPR.
 */
#ifndef PACELINE_TESTS_SIM_KERNEL_H
#define PACELINE_TESTS_SIM_KERNEL_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Runs `outside`, who starts programs and does them harm, as a process that no power cut ends, until it returns.
 * trace (may be NULL) gets a line for each event. Returns the steps: how often a process went on. */
uint64_t sim_run(uint64_t seed, FILE *trace, void (*outside)(void *arg), void *arg);

/* The main() of a test: NAME [-t] SEED [SEEDS [STEPS]]: so many runs (1) with the seeds from SEED on, until STEPS steps
 * are made; -t prints what happens. Returns 0, or 1 at the first run that fails. */
int sim_main(int argc, char **argv, void (*outside)(void *arg));
/* Memory of zeros that lives on when the process of a run has ended. */
void *sim_shared(size_t bytes);

/* ---- for `outside`, and for processes ---- */
/* In the same run each process has a number of its own, which is never used again. */
pid_t sim_start(const char *name, int (*main)(int argc, char **argv), int argc, char **argv);
/* It ends when its parent does. */
void sim_dies_with(pid_t pid, pid_t parent);
/* Gives it an open file of the caller, as its descriptor `as`. */
void sim_give_file(pid_t pid, int fd, int as);
int sim_pid_file(pid_t pid); /* a descriptor that is readable when it has ended */
int sim_is_alive(pid_t pid);
pid_t sim_forked(pid_t parent); /* a process that it has forked, and that lives; 0: there is none */
int sim_status(pid_t pid); /* its exit status, or 128 + the signal that ended it */
void sim_signal(pid_t pid, int number);
void sim_end_at_sync(pid_t pid, unsigned which); /* SIGKILL when it begins its which-th from now on, counted from 1 */
void sim_stop(pid_t pid, double seconds); /* it lives and does not move */
void sim_cut_power(void); /* all others end, files are as the disk has them, another boot begins */
/* Processes are on host 0, or where their starter is, or where they are placed. Those of two hosts reach each other as long
 * as a process lives that is the bridge; 0: none is. Files are the same on all hosts. */
void sim_place(pid_t pid, int host);
void sim_bridge(pid_t pid);
void sim_end_host(int host); /* all that runs there ends */
void sim_cut_connections(pid_t pid); /* those that it has, both ends are told at some time */
void sim_fill_disk(int is_full);
/* No surprises any more: nothing comes short or late. */
void sim_be_calm(void);

/* Which of so many kinds of harm a run has, each with this probability, and how often: by its seed. */
#define SIM_HARMS_MAX 16
struct sim_weather {
	int kinds;
	double weight[SIM_HARMS_MAX], sum;
};
void sim_weather(struct sim_weather *w, int kinds, double probability);
int sim_weather_harm(const struct sim_weather *w); /* the next one; -1: none */

uint64_t sim_random(uint64_t below);
int sim_chance(double probability);
double sim_seconds(void); /* since the run began */
uint64_t sim_steps(void);
void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Something is so that must never be: says it, with the seed, and ends the process with status 1. */
_Noreturn void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
