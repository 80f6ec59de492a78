# rooms: agent run lead
# Jobs whose ranks have the parameters, and whose gradients the kit sums (TRAINER with SYNC=allreduce).
load helper

setup_file() { command -v python3 >/dev/null || skip "no python3 here"; }

# ranks_job [KEY=VALUE]...: counting-trainer.py, 600 rows EPOCHS times; ranks write their counts into the directory
# counts, and a batch takes 30 ms.
ranks_job() {
	mkdir counts
	printf '%s\n' JOB=ranks SAMPLES=600 WORKERS=3 BATCH=30,shard:2 EPOCHS=4 SYNC=allreduce \
		"TRAINER='cd $T/counts && exec python3 $BATS_TEST_DIRNAME/counting-trainer.py 600 0.03'" "$@" >job.env
}

# node ID ROLE: it is up, and has this role.
node() { in_status "^node role=$2 id=$1 state=up "; }
trainer_of() { cat "/proc/$(pid_of "$1")/task/$(pid_of "$1")/children" 2>/dev/null; }

# went_back N: so often all have gone back to a checkpoint; a job that goes on begins with one.
went_back() { [ "$(grep '^rollback ' run/state/job.log | grep -vc 'the job goes on:')" -eq "$1" ]; }

# all_exact OUT RANKS [EPOCHS]: the job is done, nobody went back, and each of RANKS has each row EPOCHS (4) times.
all_exact() {
	local epochs=${3-4}
	wait $SUPERVISOR
	[ "$(last "$1" state)" = done ]
	went_back 0
	[ "$(last "$1" repeated)" = 0 ]
	[ "$(last "$1" samples)" = $((epochs * 600)) ]
	[ "$(ls counts | tr '\n' ' ')" = "$2" ]
	[ "$(cat counts/* | sort -u)" = "$epochs" ]
}

@test "ranks: a spare takes a dead rank's place, who is a spare from then on; nobody goes back" {
	ranks_job WORKERS=3,spares:1 RESTARTS=shard:never
	begin first
	wait_for 'came_to 200'
	wait_for 'node s0 spare'
	kill -9 "$(trainer_of w1)"
	wait_for 'node s0 worker'
	wait_for 'node w1 spare'
	kill -9 "$(pid_of w0)"
	wait_for 'node w1 worker'
	all_exact first.out 's0.counts w1.counts w2.counts '
	[ "$(logged '^spare id=s0 for=w1 ')" = 1 ]
}

@test "ranks: a spare waits while lead, replica and trainctl die, and it becomes rank 0: it is told so" {
	sed 's/if kind == "resume":/if kind == "place": print("rank", of["rank"], flush=True)\n        &/' \
		"$BATS_TEST_DIRNAME/counting-trainer.py" >told.py
	ranks_job WORKERS=2,spares:1 RESTARTS=shard:never "TRAINER='cd $T/counts && exec python3 $T/told.py 600 0.03'"
	begin first
	wait_for 'came_to 100'
	wait_for 'node s0 spare'
	local spare lead replica
	spare=$(trainer_of s0) lead=$(pid_of lead) replica=$(pid_of r0)
	kill -9 $SUPERVISOR
	ended $SUPERVISOR
	begin second
	kill -9 "$lead" "$replica"
	wait_for '[ -n "$(pid_of lead)" ] && [ "$(pid_of lead)" != '"$lead"' ]'
	wait_for 'node r0 replica && [ "$(pid_of r0)" != '"$replica"' ]'
	wait_for 'came_to 600'
	kill -9 "$(pid_of w0)"
	wait_for 'node s0 worker'
	[ "$(trainer_of s0)" = "$spare" ]
	all_exact second.out 's0.counts w1.counts '
	grep -q '^rank 0$' run/state/logs/s0.log
}

# began ID LIFE: this process of it is a rank that trains.
began() { grep -q "^event role=worker id=$1 kind=ready life=$2 " run/state/job.log; }

@test "ranks: SIGTERM to an agent, its trainer, both, and to trainctl: nothing is trained twice" {
	ranks_job EPOCHS=6
	begin first
	wait_for 'came_to 200'
	kill -TERM "$(pid_of w1)"
	wait_for 'began w1 1'
	kill -TERM "$(pid_of w1)" "$(trainer_of w1)"
	kill -TERM "$(trainer_of w2)"
	wait_for 'began w1 2 && began w2 1'
	kill -TERM $SUPERVISOR
	ended $SUPERVISOR
	[ "$status" -eq 143 ]
	begin second
	all_exact second.out 'w0.counts w1.counts w2.counts ' 6
}
